"""What certificates are measured by, in the text format of Prometheus."""

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from certs.inspection import Item, Verdict


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._expiry = Gauge(
            "berthmaster_certificate_expiry_timestamp_seconds",
            "When a certificate, or the first of a bundle, ends. A predecessor ends unnoticed.",
            ["certificate"],
            registry=self._registry,
        )
        self._bundle = Gauge(
            "berthmaster_certificate_bundle_authorities",
            "How many authorities a configuration trusts; more than one while they are replaced.",
            ["configuration"],
            registry=self._registry,
        )
        self._bad = Gauge(
            "berthmaster_certificate_problems",
            "How many certificates and bundles are not as clients need them.",
            registry=self._registry,
        )
        self._success = Gauge(
            "berthmaster_certificate_last_success_timestamp_seconds",
            "When everything was last found, or made, as it should be.",
            registry=self._registry,
        )
        self._actions = Counter(
            "berthmaster_certificate_actions_total",
            "What was written, by its reason and whether it was done, overtaken by somebody else, or failed.",
            ["reason", "outcome"],
            registry=self._registry,
        )
        self._failures = Counter(
            "berthmaster_certificate_failures_total",
            "Looks at the certificates that ended with a problem.",
            registry=self._registry,
        )

    def count(self, reason: str, outcome: str) -> None:
        """One more action."""
        self._actions.labels(reason, outcome).inc()

    def failed(self) -> None:
        """One more look that ended with a problem."""
        self._failures.inc()

    def succeeded(self, now: datetime) -> None:
        """All is well."""
        self._success.set(now.timestamp())

    def show(self, items: Iterable[Item]) -> None:
        """How everything is now; what is gone is no longer shown."""
        self._expiry.clear()
        self._bundle.clear()
        bad = 0
        for item in items:
            bad += item.verdict is Verdict.BAD
            if item.authorities is not None:
                self._bundle.labels(item.name).set(item.authorities)
            elif item.expires is not None and item.kind != "predecessor":
                self._expiry.labels(f"{item.kind}/{item.name.partition('/')[2]}").set(item.expires.timestamp())
        self._bad.set(bad)

    def exposition(self) -> tuple[str, bytes]:
        """The content type and the text."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)
