"""How certificates and bundles are, one item each: what ``inspect`` prints and metrics count. Pure."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec
from cryptography import x509

from certs import secrets
from certs.bundle import Bundle
from certs.injection import bundles
from certs.leaf import OVERDUE_AT, RENEWED_AT, judge, moment_of_life, serves, told
from certs.options import Options, Origin
from certs.reading import fingerprint, names_of
from certs.reasons import Finding, Reason
from certs.rotation import AuthorityState, next_change
from certs.steps import Wishes, leaf_plan, minted, provided_bundle, situation_of
from certs.world import Unknown, World

_NO_WISHES: Final = Wishes()


class Verdict(StrEnum):
    """How something is.

    Attributes:
        OK: as it should be.
        DUE: something is to be done, and clients notice nothing until then.
        BAD: clients are refused, or soon will be because nobody does what was due long ago.
    """

    OK = "ok"
    DUE = "due"
    BAD = "bad"


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One certificate or bundle.

    Attributes:
        kind: ``authority``, ``successor``, ``predecessor``, ``leaf`` or ``bundle``.
        name: the Secret or the configuration that holds it.
        verdict: how it is.
        reason, message: why it is not left as it is; empty if it is.
        expires: when it ends.
        renewed: when it is due.
        names: whom a leaf is for.
        fingerprint: SHA-256 of a certificate.
        authorities: how many a bundle holds.
    """

    kind: str
    name: str
    verdict: Verdict
    reason: str = ""
    message: str = ""
    expires: datetime | None = None
    renewed: datetime | None = None
    names: tuple[str, ...] = ()
    fingerprint: str = ""
    authorities: int | None = None


def inspect(world: World, options: Options, now: datetime) -> list[Item]:
    """Everything that options name.

    Raises:
        InputError: the Secret of the authority is somebody else's.
    """
    if options.origin is Origin.PROVIDED:
        trusted = provided_bundle(world)
        return [*_leaves(world, options, None, trusted, now), *_targets(world, trusted, now)]
    state = secrets.authority_of(world.authority)
    issuer = state.issuer.certificate if state.issuer is not None else None
    return [
        *_authorities(world, options, state, now),
        *_leaves(world, options, issuer, state.bundle, now),
        *_targets(world, state.bundle, now),
    ]


def _authorities(world: World, options: Options, state: AuthorityState, now: datetime) -> Iterator[Item]:
    name = f"Secret/{options.authority_secret}"
    change = next_change(situation_of(world, options, _NO_WISHES, state, now), partial(minted, options, now))
    finding = change.finding if change is not None else None
    if state.issuer is None:
        missing = finding or state.problem or Finding(Reason.AUTHORITY_MISSING, "there is none")
        yield Item(kind="authority", name=name, verdict=Verdict.BAD, reason=missing.reason, message=missing.message)
    else:
        yield _certificate("authority", name, state.issuer.certificate, finding, now)
    if state.successor is not None:
        yield _certificate("successor", name, state.successor.certificate, None, now)
    for each in state.predecessors:
        yield _certificate("predecessor", name, each, None, now, renewed=False)


def _leaves(
    world: World, options: Options, issuer: x509.Certificate | None, trusted: Bundle, now: datetime
) -> Iterator[Item]:
    for serving, secret in world.serving:
        name = f"Secret/{serving.secret}"
        leaf = secret.leaf.certificate if secret is not None else None
        if secret is None or leaf is None:
            reason = Reason.LEAF_MISSING if secret is None else Reason.LEAF_UNREADABLE
            yield Item(kind="leaf", name=name, verdict=Verdict.BAD, reason=reason, message="there is no certificate")
            continue
        signer = trusted.issuer_of(leaf)
        judged_by = issuer or signer
        finding = (
            judge(secret.leaf, judged_by, leaf_plan(serving, options, _NO_WISHES), now)
            if judged_by is not None
            else Finding(Reason.WRONG_ISSUER, "nobody in the bundle has issued it")
        )
        item = _certificate("leaf", name, leaf, finding, now)
        served = signer is not None and serves(secret.leaf, signer, now)
        yield item if served else msgspec.structs.replace(item, verdict=Verdict.BAD)


def _targets(world: World, trusted: Bundle, now: datetime) -> Iterator[Item]:
    leaves = [secret.leaf.certificate for _, secret in world.serving if secret is not None]
    present = [leaf for leaf in leaves if leaf is not None]
    for target, seen in world.targets:
        name = f"{target.kind.kind}/{target.name}"
        if seen is None:
            yield Item(kind="bundle", name=name, verdict=Verdict.OK, message="there is no such configuration")
        elif isinstance(seen, Unknown):
            yield Item(kind="bundle", name=name, verdict=Verdict.BAD, reason="Unreadable", message=seen.problem)
        else:
            yield from _bundles(name, bundles(target.kind, seen), trusted, present, now)


def _bundles(
    name: str, held: list[Bundle], trusted: Bundle, leaves: list[x509.Certificate], now: datetime
) -> Iterator[Item]:
    """One item for a configuration: the worst of its bundles."""
    if not held:
        yield Item(kind="bundle", name=name, verdict=Verdict.OK, message="it is called without TLS")
        return
    refusing = [each for each in held if not all(each.verifies(leaf, now) for leaf in leaves)]
    worst = (refusing or [each for each in held if each != trusted] or held)[0]
    expires = min((each.not_valid_after_utc for each in worst), default=None)
    item = Item(kind="bundle", name=name, verdict=Verdict.OK, expires=expires, authorities=len(worst))
    if refusing:
        reason = Reason.BUNDLE_OUTDATED if len(worst) else Reason.BUNDLE_MISSING
        message = "clients that trust it refuse a certificate that is served"
        item = msgspec.structs.replace(item, verdict=Verdict.BAD, reason=reason, message=message)
    elif worst != trusted:
        message = "it is not the authority's bundle"
        item = msgspec.structs.replace(item, verdict=Verdict.DUE, reason=Reason.BUNDLE_OUTDATED, message=message)
    yield item


def _certificate(
    kind: str,
    name: str,
    certificate: x509.Certificate,
    finding: Finding | None,
    now: datetime,
    *,
    renewed: bool = True,
) -> Item:
    overdue = renewed and moment_of_life(certificate, OVERDUE_AT) <= now
    expired = certificate.not_valid_after_utc <= now
    verdict = Verdict.BAD if expired or overdue else Verdict.DUE if finding is not None else Verdict.OK
    message = finding.message if finding is not None else ""
    if overdue and not expired:
        message = f"it should have been renewed at {told(moment_of_life(certificate, RENEWED_AT))}"
    return Item(
        kind=kind,
        name=name,
        verdict=verdict,
        reason=finding.reason if finding is not None else "",
        message=message,
        expires=certificate.not_valid_after_utc,
        renewed=moment_of_life(certificate, RENEWED_AT) if renewed else None,
        names=tuple(sorted(names_of(certificate))),
        fingerprint=fingerprint(certificate),
    )
