"""What is due: the next writes as requests that are ready to send, and each certificate and bundle as one item.

Pure except for the keys of new certificates. The order of writes keeps clients and servers compatible. An authority is
stored before its bundle is written to clients, and clients have the bundle before a leaf is issued.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec
from cryptography import x509

from berthmaster.kube import requests
from berthmaster.kube.events import Reference
from berthmaster.kube.requests import APIRequest
from berthmaster.model.cached import cached_property
from berthmaster.model.meta import timestamp_text
from certs import secrets
from certs.authority import MAX_COMMON_NAME, SERVERS_ONLY, KeyPair, issue, new_authority
from certs.bundle import EMPTY, Bundle
from certs.bundle_fields import bundles, patch
from certs.certificate import fingerprint, names_of
from certs.leaf import (
    OVERDUE_AT,
    RENEWED_AT,
    CertificateFinding,
    LeafRequirements,
    Reason,
    StoredLeaf,
    leaf_finding,
    moment_of_life,
    serves,
)
from certs.options import MANAGER, CertificateOptions, Origin, ServingCertificate, TargetConfiguration
from certs.rotation import AuthorityState, RotationInput, RotationStep, ServedLeaf, next_rotation_step
from certs.snapshot import (
    CertificateSnapshot,
    ConfigurationState,
    ForeignConfiguration,
    UnreadableConfiguration,
    configuration_reference,
)


class CertificateStep(NamedTuple):
    about: Reference
    finding: CertificateFinding
    request: APIRequest
    on_target: bool = False


class CertificateVerdict(StrEnum):
    """DUE: a write is due, unnoticed by clients. BAD: clients are rejected, or soon will be."""

    OK = "ok"
    DUE = "due"
    BAD = "bad"


class CertificateItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One certificate or bundle. ``kind`` is ``authority``, ``successor``, ``predecessor``, ``leaf`` or ``bundle``."""

    kind: str
    name: str
    verdict: CertificateVerdict
    reason: str = ""
    message: str = ""
    expires: datetime | None = None
    renewed: datetime | None = None
    names: tuple[str, ...] = ()
    fingerprint: str = ""
    authorities: int | None = None


@dataclass(frozen=True)
class Certificates:
    """The certificates of an installation at a time of the host's API server, and what is due for them."""

    snapshot: CertificateSnapshot
    options: CertificateOptions
    now: datetime
    replaced: frozenset[str] = frozenset()

    @cached_property
    def authority(self) -> AuthorityState:
        """The authority. If another system keeps it, only the union of the bundles that this system stores is known."""
        if self.options.origin is Origin.OWN:
            return secrets.authority_of(self.snapshot.authority)
        return AuthorityState(
            bundle=Bundle(each for _, secret in self.snapshot.serving if secret is not None for each in secret.bundle)
        )

    def problems(self) -> Iterator[str]:
        states = [state for _, state in self.snapshot.targets]
        yield from (each.problem for each in states if isinstance(each, UnreadableConfiguration))
        yield from (f"{about.kind} {about.name}: {finding}" for about, finding in self.foreign())
        for serving, secret in self.snapshot.serving if self.options.origin is Origin.PROVIDED else ():
            if secret is None or not secret.bundle:
                what = "does not exist" if secret is None else f"has no authority in {secrets.BUNDLE}"
                yield f"{Reason.PROVIDED_BUNDLE_MISSING}: the Secret {serving.secret} {what}"

    def foreign(self) -> Iterator[tuple[Reference, CertificateFinding]]:
        """Yield the configurations that another installation registered. No step writes to them."""
        for _, state in self.snapshot.targets:
            if isinstance(state, ForeignConfiguration):
                yield state.about, _foreign_finding(state, self.options.registered_by)

    def steps(self) -> Iterator[CertificateStep]:
        """Yield the writes that are due, the most urgent first. Read a new snapshot after each write."""
        return self._own_steps() if self.options.origin is Origin.OWN else self._provided_steps()

    def _own_steps(self) -> Iterator[CertificateStep]:
        snapshot, state = self.snapshot, self.authority
        for _, secret in snapshot.serving:
            if secret is not None:
                secrets.check_adoptable(secret, state)
        if (step := self._rotation_step()) is not None:
            key = (self.options.namespace, self.options.authority_secret)
            request = secrets.authority_request(key, snapshot.authority, step.state)
            yield CertificateStep(secrets.secret_reference(key, snapshot.authority), step.finding, request)
        if not state.bundle:
            return  # there is no authority yet
        for target, configuration in snapshot.targets:
            yield from _injection(target, configuration, state.bundle)
        for serving, secret in snapshot.serving:
            yield from self._serving_steps(serving, secret)

    def _provided_steps(self) -> Iterator[CertificateStep]:
        """Yield injections of the provided bundles.

        Authorities that a configuration trusted before stay in it until the newest leaf is older than the overlap.
        """
        provided = self.authority.bundle.unexpired(self.now)
        if not provided:
            return
        newest = max((leaf.not_valid_before_utc for leaf in self._served()), default=None)
        overlapping = newest is not None and newest + self.options.overlap > self.now
        for target, state in self.snapshot.targets:
            if not isinstance(state, Mapping):
                continue
            found = bundles(target.kind, state)
            earlier = Bundle(each for bundle in found for each in bundle) if overlapping else EMPTY
            yield from _injection(target, state, provided.with_more(earlier.unexpired(self.now)))

    def _served(self) -> list[x509.Certificate]:
        leaves = (secret.leaf.certificate for _, secret in self.snapshot.serving if secret is not None)
        return [leaf for leaf in leaves if leaf is not None]

    def _rotation_step(self) -> RotationStep | None:
        snapshot, options = self.snapshot, self.options
        leaves = tuple(
            ServedLeaf(secret.leaf, secret.bundle) if secret is not None else ServedLeaf(StoredLeaf(), EMPTY)
            for _, secret in snapshot.serving
        )
        clients, trusted, create = snapshot.clients(), snapshot.trusted(), self._new_authority
        return next_rotation_step(
            RotationInput(self.authority, leaves, clients, trusted, options.overlap, self.now, create, self.replaced)
        )

    def _new_authority(self) -> KeyPair:
        """Create an authority. Its name contains the time, which helps people to compare bundles."""
        name = f"berthmaster authority {timestamp_text(self.now)}"
        return new_authority(name, self.options.authority_lifetime, self.now)

    def _serving_steps(self, serving: ServingCertificate, secret: secrets.Secret | None) -> Iterator[CertificateStep]:
        """Yield the writes of a serving Secret: its bundle, and its leaf if the issuer is valid."""
        key = (self.options.namespace, serving.secret)
        about, bundle = secrets.secret_reference(key, secret), self.authority.bundle
        issuer, stored = self.authority.issuer, secret.leaf if secret is not None else StoredLeaf()
        if secret is not None and secret.data and secret.get(secrets.BUNDLE) != bundle.pem:
            message = f"write a bundle with {len(bundle)} authorities beside the leaf"
            finding = CertificateFinding(Reason.BUNDLE_OUTDATED, message)
            yield CertificateStep(about, finding, secrets.serving_request(key, secret, None, bundle))
        if issuer is None or issuer.certificate.not_valid_after_utc <= self.now:
            return
        required = LeafRequirements(serving.names, self.options.leaf_lifetime, self.replaced)
        due = leaf_finding(stored, issuer.certificate, required, self.now)
        if due is None:
            return
        name = serving.secret[:MAX_COMMON_NAME]
        pair = issue(issuer, name, serving.names, self.options.leaf_lifetime, self.now, usages=SERVERS_ONLY)
        leaf = StoredLeaf(pair.certificate_pem, pair.key_pem)
        yield CertificateStep(about, due, secrets.serving_request(key, secret, leaf, bundle))

    def items(self) -> list[CertificateItem]:
        own = self.options.origin is Origin.OWN
        return [*(self._authorities() if own else ()), *self._leaves(), *self._targets()]

    def _authorities(self) -> Iterator[CertificateItem]:
        name, state = f"Secret/{self.options.authority_secret}", self.authority
        step = self._rotation_step()
        finding = step.finding if step is not None else None
        if state.issuer is None:
            missing = finding or state.problem or CertificateFinding(Reason.AUTHORITY_MISSING, "there is no authority")
            yield _item("authority", name, CertificateVerdict.BAD, missing)
        else:
            yield self._certificate("authority", name, state.issuer.certificate, finding)
        if state.successor is not None:
            yield self._certificate("successor", name, state.successor.certificate, None)
        for each in state.predecessors:
            yield self._certificate("predecessor", name, each, None, renewed=False)

    def _leaves(self) -> Iterator[CertificateItem]:
        issuer = self.authority.issuer
        for serving, secret in self.snapshot.serving:
            name = f"Secret/{serving.secret}"
            leaf = secret.leaf.certificate if secret is not None else None
            if secret is None or leaf is None:
                reason = Reason.LEAF_MISSING if secret is None else Reason.LEAF_UNREADABLE
                yield _item("leaf", name, CertificateVerdict.BAD, (reason, "there is no certificate"))
                continue
            signer = self.authority.bundle.issuer_of(leaf)
            required = LeafRequirements(serving.names, self.options.leaf_lifetime)
            expected_issuer = issuer.certificate if issuer is not None else signer
            finding = (
                leaf_finding(secret.leaf, expected_issuer, required, self.now)
                if expected_issuer is not None
                else CertificateFinding(Reason.WRONG_ISSUER, "no authority in the bundle issued it")
            )
            item = self._certificate("leaf", name, leaf, finding)
            accepted = signer is not None and serves(secret.leaf, signer, self.now)
            yield item if accepted else msgspec.structs.replace(item, verdict=CertificateVerdict.BAD)

    def _targets(self) -> Iterator[CertificateItem]:
        for target, state in self.snapshot.targets:
            name = f"{target.kind.kind}/{target.name}"
            if state is None:
                yield _item("bundle", name, CertificateVerdict.OK, ("", "the configuration does not exist"))
            elif isinstance(state, UnreadableConfiguration):
                yield _item("bundle", name, CertificateVerdict.BAD, ("Unreadable", state.problem))
            elif isinstance(state, ForeignConfiguration):
                foreign = _foreign_finding(state, self.options.registered_by)
                yield _item("bundle", name, CertificateVerdict.BAD, foreign)
            else:
                yield self._worst_bundle(name, bundles(target.kind, state))

    def _worst_bundle(self, name: str, found: list[Bundle]) -> CertificateItem:
        if not found:
            return _item("bundle", name, CertificateVerdict.OK, ("", "the server is called without TLS"))
        trusted, leaves = self.authority.bundle, self._served()
        rejecting = [each for each in found if not all(each.verifies(leaf, self.now) for leaf in leaves)]
        worst = (rejecting or [each for each in found if each != trusted] or found)[0]
        verdict, finding = CertificateVerdict.OK, None
        if rejecting:
            reason = Reason.BUNDLE_OUTDATED if worst else Reason.BUNDLE_MISSING
            verdict = CertificateVerdict.BAD
            finding = CertificateFinding(reason, "clients that trust it reject a certificate that is served")
        elif worst != trusted:
            verdict = CertificateVerdict.DUE
            finding = CertificateFinding(Reason.BUNDLE_OUTDATED, "it differs from the authority's bundle")
        expires = min((each.not_valid_after_utc for each in worst), default=None)
        return msgspec.structs.replace(_item("bundle", name, verdict, finding), expires=expires, authorities=len(worst))

    def _certificate(
        self, kind: str, name: str, certificate: x509.Certificate, finding: CertificateFinding | None, *,
        renewed: bool = True,
    ) -> CertificateItem:  # fmt: skip
        overdue = renewed and moment_of_life(certificate, OVERDUE_AT) <= self.now
        expired = certificate.not_valid_after_utc <= self.now
        due = CertificateVerdict.DUE if finding is not None else CertificateVerdict.OK
        item = _item(kind, name, CertificateVerdict.BAD if expired or overdue else due, finding)
        if overdue and not expired:
            message = f"its renewal was due at {timestamp_text(moment_of_life(certificate, RENEWED_AT))}"
            item = msgspec.structs.replace(item, message=message)
        return msgspec.structs.replace(
            item,
            expires=certificate.not_valid_after_utc,
            renewed=moment_of_life(certificate, RENEWED_AT) if renewed else None,
            names=tuple(sorted(names_of(certificate))),
            fingerprint=fingerprint(certificate),
        )


def _injection(target: TargetConfiguration, state: ConfigurationState, bundle: Bundle) -> Iterator[CertificateStep]:
    if not isinstance(state, Mapping):
        return
    operations = patch(target.kind, state, bundle)
    if not operations:
        return
    reason = Reason.BUNDLE_OUTDATED if all(bundles(target.kind, state)) else Reason.BUNDLE_MISSING
    finding = CertificateFinding(reason, f"write a bundle with {len(bundle)} authorities")
    request = requests.json_patch(target.kind.collection, ("", target.name), operations, MANAGER)
    yield CertificateStep(configuration_reference(target, state), finding, request, on_target=True)


def _foreign_finding(state: ForeignConfiguration, registered_by: str) -> CertificateFinding:
    message = f"{state.owner} registered it, not {registered_by}; give one installation another name"
    return CertificateFinding(Reason.REGISTERED_BY_ANOTHER, message)


def _item(kind: str, name: str, verdict: CertificateVerdict, finding: tuple[str, str] | None) -> CertificateItem:
    reason, message = finding if finding is not None else ("", "")
    return CertificateItem(kind=kind, name=name, verdict=verdict, reason=reason, message=message)
