"""Decide the next step of an authority's rotation from the stored state and the current time. Pure.

A rotation overlaps the old and the new authority, so that every client can verify every leaf at all times::

    settled     clients trust the issuer alone
    begun       the successor is in the bundle, and the bundle is written to every client
    introduced  every client was seen to trust the successor; the overlap passes for clients that read files or cache
    taken over  the successor is the issuer; leaves of its predecessor are issued again
    superseded  every leaf was seen to come from the issuer; the overlap passes for servers that read files
    retired     the predecessor leaves the bundle

Each transition is one write of one object, guarded by its version. Any replica can continue from any state, also after
a crash. ``docs/certificates.md`` explains why no interleaving breaks a client.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from cryptography import x509

from berthmaster.model.meta import timestamp_text
from certs.authority import KeyPair
from certs.bundle import EMPTY, Bundle
from certs.certificate import fingerprint, issued_by, key_fits
from certs.leaf import RENEWED_AT, CertificateFinding, Reason, StoredLeaf, moment_of_life, serves


class Observation(NamedTuple):
    """Since when a condition holds for the authority with a fingerprint. That of another authority is ignored."""

    fingerprint: str
    at: datetime


@dataclass(frozen=True, slots=True)
class AuthorityState:
    """An authority as it is stored.

    Attributes:
        issuer: issues leaves; None if no stored authority can.
        successor: becomes the issuer once every client trusts it.
        bundle: the authorities that clients must trust: issuer, successor and their predecessors.
        introduced: since when every client trusts the successor.
        superseded: since when every leaf comes from the issuer.
    """

    issuer: KeyPair | None = None
    successor: KeyPair | None = None
    bundle: Bundle = EMPTY
    introduced: Observation | None = None
    superseded: Observation | None = None
    problem: CertificateFinding | None = None

    @property
    def predecessors(self) -> Bundle:
        """The authorities that are trusted only for leaves they issued earlier."""
        present = Bundle(each.certificate for each in (self.issuer, self.successor) if each is not None)
        return Bundle(each for each in self.bundle if each not in present)


class ServedLeaf(NamedTuple):
    leaf: StoredLeaf
    bundle: Bundle


@dataclass(frozen=True, slots=True)
class RotationInput:
    """The input of a step.

    Attributes:
        clients: the bundle of each client; None for a client that is unreadable now.
        trusted: the authorities that readable configurations trust now. A leaf's Secret is not a configuration: other
            accounts may write to it, so an authority in it alone is not trusted.
        now: the current time, not earlier than the other values were read.
        create: creates an authority. It is called only if the step needs one.
    """

    state: AuthorityState
    leaves: tuple[ServedLeaf, ...]
    clients: tuple[Bundle | None, ...]
    trusted: Bundle
    overlap: timedelta
    now: datetime
    create: Callable[[], KeyPair]
    replaced: frozenset[str] = frozenset()


class RotationStep(NamedTuple):
    state: AuthorityState
    finding: CertificateFinding


def next_rotation_step(given: RotationInput) -> RotationStep | None:
    """Return the next step, or None if nothing is due."""
    return next((step for rule in _RULES if (step := rule(given)) is not None), None)


def _replace_lost(given: RotationInput) -> RotationStep | None:
    """Replace an issuer that is missing or expired: with overlap if all leaves still serve, else at once.

    Servers present their last leaf until they have read a new one, even if its Secret is lost. So what configurations
    trust stays trusted until every leaf has come from the new issuer for one overlap.
    """
    state, now = given.state, given.now
    if state.issuer is not None and state.issuer.certificate.not_valid_after_utc > now:
        return None
    finding = state.problem or CertificateFinding(Reason.AUTHORITY_MISSING, "there is no authority")
    if state.issuer is not None:
        finding = CertificateFinding(Reason.AUTHORITY_EXPIRED, _expiry(state.issuer.certificate))
    with_overlap = _all_leaves_serve(given)
    if not with_overlap and _may_be_trusted(given):
        return None
    successor = state.successor
    if successor is None or successor.certificate.not_valid_after_utc <= now:
        made = given.create()
        known = state.bundle.with_more(given.trusted)
        issuer, successor = (None, made) if with_overlap else (made, None)
        return _step(given, *finding, issuer=issuer, successor=successor, bundle=known)
    return None if with_overlap else _step(given, *finding, issuer=successor, successor=None)


def _drop_expired_successor(given: RotationInput) -> RotationStep | None:
    successor = given.state.successor
    if successor is None or successor.certificate.not_valid_after_utc > given.now:
        return None
    return _step(given, Reason.SUCCESSOR_EXPIRED, _expiry(successor.certificate), successor=None)


def _repair_bundle(given: RotationInput) -> RotationStep | None:
    repaired, stored = _required_bundle(given, given.state), given.state.bundle
    if repaired == stored:
        return None
    missing = [each.subject.rfc4514_string() for each in repaired if each not in stored]
    if missing:
        return _step(given, Reason.BUNDLE_EDITED, f"it lacks {', '.join(missing)}")
    return _step(given, Reason.BUNDLE_OUTDATED, "it holds expired authorities")


def _begin(given: RotationInput) -> RotationStep | None:
    state = given.state
    if state.issuer is None or state.successor is not None:
        return None
    due = moment_of_life(state.issuer.certificate, RENEWED_AT)
    if fingerprint(state.issuer.certificate) in given.replaced:
        return _step(given, Reason.ROTATION_REQUESTED, "a user requested a new authority", successor=given.create())
    if due > given.now:
        return None
    message = f"two thirds of its life passed at {timestamp_text(due)}"
    return _step(given, Reason.AUTHORITY_DUE_FOR_ROTATION, message, successor=given.create())


def _introduce(given: RotationInput) -> RotationStep | None:
    """Record since when every client trusts the successor, and clear the record if a client does not."""
    state = given.state
    if state.successor is None:
        return None
    certificate = state.successor.certificate
    lacking = sum(1 for each in given.clients if each is not None and certificate not in each)
    if _is_about(state.introduced, certificate):
        message = f"{lacking} clients no longer trust the successor"
        return _step(given, Reason.SUCCESSOR_NOT_EVERYWHERE, message, introduced=None) if lacking else None
    if lacking or None in given.clients:
        return None
    message = f"all {len(given.clients)} clients trust the successor"
    introduced = Observation(fingerprint(certificate), given.now)
    return _step(given, Reason.SUCCESSOR_INTRODUCED, message, introduced=introduced)


def _take_over(given: RotationInput) -> RotationStep | None:
    state = given.state
    if state.successor is None or not _overlap_passed(given, state.introduced, state.successor.certificate):
        return None
    message = f"every client has trusted it for {given.overlap}"
    return _step(given, Reason.SUCCESSOR_TAKES_OVER, message, issuer=state.successor, successor=None, introduced=None)


def _supersede(given: RotationInput) -> RotationStep | None:
    """Record since when every leaf comes from the issuer, and clear the record if a leaf does not."""
    state = given.state
    if state.issuer is None or not state.predecessors:
        return None
    certificate = state.issuer.certificate
    others = sum(1 for each in given.leaves if not _comes_from(each.leaf, certificate))
    if _is_about(state.superseded, certificate):
        message = f"{others} leaves do not come from the issuer"
        return _step(given, Reason.PREDECESSOR_IN_USE, message, superseded=None) if others else None
    if others:
        return None
    message = f"all {len(given.leaves)} leaves come from the issuer"
    superseded = Observation(fingerprint(certificate), given.now)
    return _step(given, Reason.PREDECESSOR_SUPERSEDED, message, superseded=superseded)


def _retire(given: RotationInput) -> RotationStep | None:
    state = given.state
    if state.issuer is None or not _overlap_passed(given, state.superseded, state.issuer.certificate):
        return None
    kept = Bundle(each for each in state.bundle if each not in state.predecessors)
    names = ", ".join(each.subject.rfc4514_string() for each in state.predecessors)
    message = f"no server has presented a leaf of {names} for {given.overlap}"
    return _step(given, Reason.PREDECESSOR_RETIRED, message, bundle=kept, superseded=None)


_RULES: Final = (
    _replace_lost, _drop_expired_successor, _repair_bundle, _begin, _introduce, _take_over, _supersede, _retire,
)  # fmt: skip


def _step(given: RotationInput, reason: Reason, message: str, **changes: Any) -> RotationStep:  # noqa: ANN401 - fields
    state = replace(given.state, **changes)
    state = replace(state, bundle=_required_bundle(given, state), problem=None)
    return RotationStep(state, CertificateFinding(reason, message))


def _required_bundle(given: RotationInput, state: AuthorityState) -> Bundle:
    """Return the stored bundle with issuer, successor and signers of serving leaves added, and expired members removed.

    Present members keep their position, so that a takeover, which changes no trust, does not change the bundle.
    """
    present = (each.certificate for each in (state.issuer, state.successor) if each is not None)
    return state.bundle.with_more([*present, *_signers(given)]).unexpired(given.now)


def _signers(given: RotationInput) -> Iterator[x509.Certificate]:
    """Yield the signers of serving leaves from the bundles beside them. A lost authority stays trusted this way."""
    for each in given.leaves:
        yield from (found for found in _trusted_beside(given, each) if serves(each.leaf, found, given.now))


def _trusted_beside(given: RotationInput, served: ServedLeaf) -> Iterator[x509.Certificate]:
    """Yield the authorities beside a leaf that clients trust already, or that the authority's Secret names."""
    return (each for each in served.bundle if each in given.trusted or each in given.state.bundle)


def _may_be_trusted(given: RotationInput) -> bool:
    """Return whether a leaf may serve a client whose bundle is unreadable now."""
    return None in given.clients and any(
        serves(leaf, authority, given.now) for leaf, beside in given.leaves for authority in beside
    )


def _all_leaves_serve(given: RotationInput) -> bool:
    known = given.state.bundle.with_more(_signers(given)).unexpired(given.now)
    return bool(given.leaves) and all(
        any(serves(each.leaf, authority, given.now) for authority in known) for each in given.leaves
    )


def _comes_from(stored: StoredLeaf, issuer: x509.Certificate) -> bool:
    leaf = stored.certificate
    return leaf is not None and key_fits(leaf, stored.key_pem) and issued_by(leaf, issuer)


def _is_about(observed: Observation | None, certificate: x509.Certificate) -> bool:
    return observed is not None and observed.fingerprint == fingerprint(certificate)


def _overlap_passed(given: RotationInput, observed: Observation | None, certificate: x509.Certificate) -> bool:
    return observed is not None and _is_about(observed, certificate) and observed.at + given.overlap <= given.now


def _expiry(certificate: x509.Certificate) -> str:
    return f"it expired at {timestamp_text(certificate.not_valid_after_utc)}"
