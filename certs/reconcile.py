"""Reconcile certificates: read everything, do the next step, and repeat until nothing is due.

Any number of replicas may reconcile at the same time, and each may stop at any moment. No state is kept between two
steps. A write that another client overtook is refused as a conflict, and the next read sees that client's result.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal, NamedTuple

from berthmaster.kube.client import ask
from berthmaster.kube.events import EventContent, Recorder, Reference
from berthmaster.model.errors import ApiError
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import fields
from certs import secrets
from certs.bundle import Bundle, fingerprint
from certs.leaf import CertificateFinding
from certs.options import CertificateOptions, Origin
from certs.snapshot import CertificateSnapshot, Clusters, ServerTime, UnreadableConfiguration, read_snapshot
from certs.steps import CertificateStep, next_steps, provided_problems, trusted_bundle

_LOG: Final = logging.getLogger("berthmaster.certs")
_ACTION: Final = "KeepCertificates"
_WRITES_PER_OBJECT: Final = 6
"""How often one object may be written until everything is settled, including some conflicts."""
_NO_OBJECT: Final = Reference("", "", "", "")


class CertificateEvents:
    """Report each step with its reason: a log record, an event on the object, and a count. Keys never appear."""

    def __init__(self, on_host: Recorder, on_target: Recorder, count: Callable[[str, str], None]) -> None:
        """Create a reporter.

        Args:
            on_host: records events about Secrets.
            count: counts a step by its reason and its outcome: ``done``, ``overtaken`` or ``failed``.
        """
        self._on_host = on_host
        self._on_target = on_target
        self._count = count

    def done(self, step: CertificateStep) -> None:
        _LOG.info("%s %s: written: %s", step.about.kind, step.about.name, step.finding, extra=_fields(step))
        self._count(step.finding.reason, "done")
        self._record(step, "Normal", step.finding.message)

    def overtaken(self, step: CertificateStep) -> None:
        """Report a write that was refused because another client had written the object."""
        message = "%s %s: not written: another client has changed it"
        _LOG.info(message, step.about.kind, step.about.name, extra=_fields(step))
        self._count(step.finding.reason, "overtaken")

    def failed(self, step: CertificateStep, error: ApiError) -> None:
        _LOG.error("%s %s: not written: %s", step.about.kind, step.about.name, error, extra=_fields(step))
        self._count(step.finding.reason, "failed")
        self._record(step, "Warning", f"{step.finding.message}; the write failed: {error}")

    def _record(self, step: CertificateStep, kind: Literal["Normal", "Warning"], note: str) -> None:
        recorder = self._on_target if step.on_target else self._on_host
        recorder.record(EventContent(step.about, kind, step.finding.reason, _ACTION, note))


class CertificateReport(NamedTuple):
    """The result of a reconciliation.

    Attributes:
        now: when it was read, by the clock of the host's API server.
    """

    snapshot: CertificateSnapshot
    now: datetime
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
        """Report the current state without any write."""
        self._time.adjust()
        snapshot = read_snapshot(self._clusters, self._options)
        return CertificateReport(snapshot, self._time.now(), (), tuple(self._missing(snapshot)))

    def bundle(self) -> Bundle:
        """Return the bundle that clients must trust now. It is empty if there is no authority yet."""
        return trusted_bundle(read_snapshot(self._clusters, replace(self._options, targets=())), self._options)

    def reconcile(self, *, renew_leaves: bool = False, rotate_authority: bool = False) -> CertificateReport:
        """Do every step that is due."""
        snapshot, now = self.observe()[:2]
        replaced = _replaced(snapshot, renew_leaves=renew_leaves, rotate_authority=rotate_authority)
        done: list[tuple[Reference, CertificateFinding]] = []
        failed: dict[Reference, str] = {}
        for _ in range(_WRITES_PER_OBJECT * (2 + len(self._options.serving) + len(self._options.targets))):
            due = (step for step in next_steps(snapshot, self._options, replaced, now) if step.about not in failed)
            step = next(due, None)
            if step is None:
                break
            self._do(step, done, failed)
            snapshot = read_snapshot(self._clusters, self._options)
            now = self._time.now()
        else:
            failed[_NO_OBJECT] = "other clients keep writing the same objects; the remaining steps are done later"
        return CertificateReport(snapshot, now, tuple(done), (*failed.values(), *self._missing(snapshot)))

    def delete_secrets(self) -> Iterator[str]:
        """Delete our Secrets, leaves first. Yield the name of each after its deletion."""
        roles = [(each.secret, secrets.SERVING) for each in self._options.serving]
        for name, role in (*roles, (self._options.authority_secret, secrets.AUTHORITY)):
            if secrets.delete_secret(self._clusters.host, (self._options.namespace, name), role):
                yield name

    def _missing(self, snapshot: CertificateSnapshot) -> Iterator[str]:
        """Yield which configurations are unreadable, and what another system has not provided yet."""
        yield from (state.problem for _, state in snapshot.targets if isinstance(state, UnreadableConfiguration))
        if self._options.origin is Origin.PROVIDED:
            yield from provided_problems(snapshot)

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


def _fields(step: CertificateStep) -> dict[str, object]:
    about = step.about
    return fields(reason=step.finding.reason, kind=about.kind, namespace=about.namespace, name=about.name)


def _replaced(snapshot: CertificateSnapshot, *, renew_leaves: bool, rotate_authority: bool) -> frozenset[str]:
    leaves = (secret.leaf.certificate for _, secret in snapshot.serving if secret is not None) if renew_leaves else ()
    issuer = secrets.authority_of(snapshot.authority).issuer if rotate_authority else None
    authorities = [fingerprint(issuer.certificate)] if issuer is not None else []
    return frozenset([*(fingerprint(leaf) for leaf in leaves if leaf is not None), *authorities])
