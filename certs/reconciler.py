"""Reconcile certificates: read everything, do the next step, and repeat until nothing is due.

Any number of replicas may reconcile at the same time, and each may stop at any moment. No state is kept between two
steps. A write that another client overtook is refused as a conflict, and the next read sees that client's result.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from berthmaster.kube.client import ask
from berthmaster.kube.events import EventContent, EventType, Recorder, Reference
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from certs import secrets
from certs.bundle import Bundle
from certs.certificate import fingerprint
from certs.leaf import CertificateFinding
from certs.options import CertificateOptions
from certs.server_time import ServerTime
from certs.snapshot import CertificateSnapshot, Clusters, read_snapshot
from certs.steps import Certificates, CertificateStep

_LOG: Final = logging.getLogger("berthmaster.certs")
_ACTION: Final = "KeepCertificates"
_EVENT_TYPES: Final[Mapping[str, EventType]] = {"done": "Normal", "failed": "Warning"}
_WRITES_PER_OBJECT: Final = 6
"""How often one object may be written until everything is settled, including some conflicts."""
_NO_OBJECT: Final = Reference("", "", "", "")


class CertificateEvents:
    """Report each step with its reason: a log record, an event on the object, and a count. Keys never appear."""

    def __init__(self, on_host: Recorder, on_target: Recorder, count: Callable[[str, str], None]) -> None:
        """Create a reporter. ``count`` gets the reason and the outcome of each step."""
        self._on_host = on_host
        self._on_target = on_target
        self._count = count

    def done(self, step: CertificateStep) -> None:
        self._report(logging.INFO, step, "done", f"written: {step.finding}", step.finding.message)

    def overtaken(self, step: CertificateStep) -> None:
        self._report(logging.INFO, step, "overtaken", "not written: another client has changed it")

    def failed(self, step: CertificateStep, error: ApiError) -> None:
        note = f"{step.finding.message}; the write failed: {error}"
        self._report(logging.ERROR, step, "failed", f"not written: {error}", note)

    def foreign(self, about: Reference, finding: CertificateFinding) -> None:
        """Report a configuration of another installation."""
        self._count(finding.reason, "refused")
        self._on_target.record(EventContent(about, "Warning", finding.reason, _ACTION, finding.message))

    def _report(self, level: int, step: CertificateStep, outcome: str, message: str, note: str = "") -> None:
        about, reason = step.about, step.finding.reason
        names = fields(reason=reason, kind=about.kind, namespace=about.namespace, name=about.name)
        _LOG.log(level, "%s %s: %s", about.kind, about.name, message, extra=names)
        self._count(reason, outcome)
        if note:
            recorder = self._on_target if step.on_target else self._on_host
            recorder.record(EventContent(about, _EVENT_TYPES[outcome], reason, _ACTION, note))


class CertificateReport(NamedTuple):
    certificates: Certificates
    done: tuple[tuple[Reference, CertificateFinding], ...]
    problems: tuple[str, ...]


class CertificateReconciler:
    """Keeps the certificates that the options name.

    Methods raise an ``ApiError`` if a Secret is unreadable or undeletable, and an ``InputError`` if one is foreign.
    """

    def __init__(
        self, clusters: Clusters, options: CertificateOptions, clock: Clock, events: CertificateEvents
    ) -> None:
        self._clusters = clusters
        self._options = options
        self._time = ServerTime(clusters.host, options.namespace, clock)
        self._events = events

    def observe(self) -> CertificateReport:
        self._time.adjust()
        found = self._read()
        return CertificateReport(found, (), tuple(found.problems()))

    def bundle(self) -> Bundle:
        """Return the bundle that clients must trust now. It is empty if there is no authority yet."""
        options = replace(self._options, targets=())
        return Certificates(read_snapshot(self._clusters, options), options, self._time.now()).authority.bundle

    def reconcile(self, *, renew_leaves: bool = False, rotate_authority: bool = False) -> CertificateReport:
        found = self.observe().certificates
        replaced = _replaced(found.snapshot, renew_leaves=renew_leaves, rotate_authority=rotate_authority)
        done: list[tuple[Reference, CertificateFinding]] = []
        failed: dict[Reference, str] = {}
        for _ in range(_WRITES_PER_OBJECT * (2 + len(self._options.serving) + len(self._options.targets))):
            due = (step for step in replace(found, replaced=replaced).steps() if step.about not in failed)
            step = next(due, None)
            if step is None:
                break
            self._do(step, done, failed)
            found = self._read()
        else:
            failed[_NO_OBJECT] = "other clients keep writing the same objects; the remaining steps are done later"
        for about, finding in found.foreign():
            self._events.foreign(about, finding)
        return CertificateReport(found, tuple(done), (*failed.values(), *found.problems()))

    def _read(self) -> Certificates:
        return Certificates(read_snapshot(self._clusters, self._options), self._options, self._time.now())

    def delete_secrets(self) -> Iterator[str]:
        """Delete our Secrets, leaves first. Yield the name of each after its deletion."""
        roles = [(each.secret, secrets.SERVING) for each in self._options.serving]
        for name, role in (*roles, (self._options.authority_secret, secrets.AUTHORITY)):
            if secrets.delete_secret(self._clusters.host, (self._options.namespace, name), role):
                yield name

    def _do(
        self, step: CertificateStep, done: list[tuple[Reference, CertificateFinding]], failed: dict[Reference, str]
    ) -> None:
        client = self._clusters.target if step.on_target else self._clusters.host
        try:
            ask(client, step.request)
        except ApiError as error:
            if error.conflict or (error.not_found and step.request.method == "PATCH"):
                self._events.overtaken(step)
                return
            problem = str(error)
            if error.forbidden and step.request.method == "POST":
                name = step.about.name
                problem += f"; create a Secret {name} without data, as the chart does at an installation or upgrade"
            failed[step.about] = problem
            self._events.failed(step, error)
            return
        done.append((step.about, step.finding))
        self._events.done(step)


def _replaced(snapshot: CertificateSnapshot, *, renew_leaves: bool, rotate_authority: bool) -> frozenset[str]:
    leaves = (secret.leaf.certificate for _, secret in snapshot.serving if secret is not None) if renew_leaves else ()
    issuer = secrets.authority_of(snapshot.authority).issuer if rotate_authority else None
    authorities = [fingerprint(issuer.certificate)] if issuer is not None else []
    return frozenset([*(fingerprint(leaf) for leaf in leaves if leaf is not None), *authorities])
