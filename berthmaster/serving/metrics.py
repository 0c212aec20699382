"""The metrics of TLS and of credentials. ``berthmaster.runtime.metrics`` says when this module may be imported."""

from prometheus_client import Counter, Gauge


class ServingMetrics:
    """What each worker of a service counts. Every label comes from a small fixed set."""

    def __init__(self, service: str) -> None:
        """Define the metrics. ``service`` is the first part of their names, as ``berthmaster-webhook``."""
        name = service.replace("-", "_")
        self._expiry = Gauge(
            f"{name}_certificate_expiry_timestamp_seconds",
            "Expiry of the certificate in use.",
            multiprocess_mode="livemin",
        )
        self._handshakes = Counter(
            f"{name}_tls_handshake_failures_total",
            "Failed TLS handshakes by reason: refused, disconnected, timeout.",
            ["reason"],
        )
        self._credentials = Counter(
            f"{name}_credential_reload_failures_total",
            "New certificates, token files or other credentials that could not be used, by kind.",
            ["kind"],
        )

    def certificate_loaded(self, expires_at: float) -> None:
        """Report the expiry of the certificate in use, in seconds since the epoch."""
        self._expiry.set(expires_at)

    def handshake_failed(self, reason: str) -> None:
        """Count a failed TLS handshake: ``refused`` by either side, ``disconnected`` or ``timeout``."""
        self._handshakes.labels(reason).inc()

    def credentials_failed(self, kind: str) -> None:
        """Count new credentials that cannot be used. The previous ones stay in use."""
        self._credentials.labels(kind).inc()
