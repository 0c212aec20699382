"""Runs the reconciler of certificates in a loop, and exports health and metrics."""

import logging
import random
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from berthmaster.model.errors import BerthmasterError
from berthmaster.runtime.backoff import Backoff
from berthmaster.runtime.stopping import Stop
from berthmaster.serving.probes import Readiness
from certs.options import CertificateOptions
from certs.reconciler import CertificateReconciler
from certs.steps import CertificateItem, CertificateVerdict

_LOG: Final = logging.getLogger("berthmaster.certs")
_JITTER: Final = 0.2
"""The fraction of the interval by which the times of several replicas drift apart."""
_FIRST_RETRY_S: Final = 1.0


class CertificateMetrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        gauge, counter = partial(Gauge, registry=self._registry), partial(Counter, registry=self._registry)
        self._expiry = gauge(
            "berthmaster_certificate_expiry_timestamp_seconds",
            "When a certificate expires. Predecessors are not included.",
            ["certificate"],
        )
        self._bundle = gauge(
            "berthmaster_certificate_bundle_authorities",
            "Number of authorities that a configuration trusts. More than one during a rotation.",
            ["configuration"],
        )
        self._bad = gauge(
            "berthmaster_certificate_problems",
            "Number of certificates and bundles with which clients are rejected, or soon will be.",
        )
        self._success = gauge(
            "berthmaster_certificate_last_success_timestamp_seconds",
            "When a reconciliation last ended without a problem.",
        )
        self._actions = counter(
            "berthmaster_certificate_actions_total",
            "Writes by reason and outcome (done, overtaken, failed), and refused ones.",
            ["reason", "outcome"],
        )
        self._failures = counter(
            "berthmaster_certificate_failures_total",
            "Reconciliations that ended with a problem.",
        )

    def count(self, reason: str, outcome: str) -> None:
        self._actions.labels(reason, outcome).inc()

    def failed(self) -> None:
        self._failures.inc()

    def succeeded(self, now: datetime) -> None:
        self._success.set(now.timestamp())

    def show(self, items: Iterable[CertificateItem]) -> None:
        self._expiry.clear()
        self._bundle.clear()
        bad = 0
        for item in items:
            bad += item.verdict is CertificateVerdict.BAD
            if item.authorities is not None:
                self._bundle.labels(item.name).set(item.authorities)
            elif item.expires is not None and item.kind != "predecessor":
                self._expiry.labels(f"{item.kind}/{item.name.partition('/')[2]}").set(item.expires.timestamp())
        self._bad.set(bad)

    def exposition(self) -> tuple[str, bytes]:
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)


class CertificateRotator:
    """Runs a ``CertificateReconciler`` at an interval, and sooner after a failure. Any thread may call ``health``."""

    def __init__(
        self,
        reconciler: CertificateReconciler,
        options: CertificateOptions,
        metrics: CertificateMetrics,
        interval_s: float,
    ) -> None:
        self._reconciler = reconciler
        self._options = options
        self._metrics = metrics
        self._interval_s = interval_s
        self._backoff = Backoff(first_s=min(_FIRST_RETRY_S, interval_s), longest_s=interval_s)
        self._draw = random.Random()  # noqa: S311 - spreads load, guards nothing
        self._stop = Stop()
        self._health = Readiness("the certificates have not been reconciled yet")

    def run(self) -> None:
        while not self._stop.wait(self._round()):
            pass

    def stop(self) -> None:
        self._stop.ask()

    def health(self) -> Readiness:
        """Return the health. Ready after the first success; later problems are notes, since a restart does not help."""
        return self._health

    def _round(self) -> float:
        """Reconcile once. Return the seconds until the next round."""
        problem, items = "", list[CertificateItem]()
        try:
            report = self._reconciler.reconcile()
            items = report.certificates.items()
        except BerthmasterError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - the loop must survive unexpected errors; the log has the traceback
            _LOG.exception("the reconciliation of certificates crashed")
            problem = f"the reconciliation of certificates crashed: {error!r}"
        else:
            problem = "; ".join(report.problems)
            self._metrics.show(items)
            if not problem:
                self._metrics.succeeded(report.certificates.now)
        return self._finish(problem, items)

    def _finish(self, problem: str, items: list[CertificateItem]) -> float:
        if problem:
            self._metrics.failed()
            _LOG.error("certificates are not reconciled: %s", problem)
            never_ready = self._health.problem
            self._health = Readiness(never_ready and problem, problem)
            return self._backoff.next_s()
        self._backoff.reset()
        bad = (each for each in items if each.verdict is CertificateVerdict.BAD)
        self._health = Readiness(note="; ".join(f"{each.kind} {each.name}: {each.message}" for each in bad))
        return self._draw.uniform((1 - _JITTER) * self._interval_s, self._interval_s)
