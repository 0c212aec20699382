"""The webhook as something that ``berthmaster.serving.server`` runs."""

import logging
from dataclasses import dataclass, field

from berthmaster.serving.probes import Readiness
from berthmaster.serving.server import Application, PostHealth, ServerOptions
from berthmaster.serving.server import serve as run_server
from webhook.admission.reviews import ROUTES
from webhook.admission.settings import AdmissionSettings


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """How to serve.

    Attributes:
        server: where, with how many processes, and for how long.
        body_bytes: the largest review that is read.
        settings: what is decided.
    """

    server: ServerOptions
    body_bytes: int = 7 * 2**20
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)


def serve(options: WebhookOptions) -> None:
    """Serve until a signal says to stop. Ends the process.

    Raises:
        InputError: the certificate cannot be used, or a port cannot be bound.
    """
    run_server(options.server, _Webhook(options))


class _Webhook:
    """The service. Metrics are defined on import, after they are shared: its modules are imported in the worker."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options

    def application(self) -> Application:
        from webhook.app import create_app  # noqa: PLC0415 - see the class
        from webhook.handler import Reviewer  # noqa: PLC0415 - see the class

        reviewer = Reviewer(self._options.settings)
        return Application(create_app(reviewer, body_bytes=self._options.body_bytes), ROUTES)

    def started(self, post: PostHealth) -> None:
        post(Readiness())

    def certificate_loaded(self, expires_at: float) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_EXPIRY.set(expires_at)

    def certificate_failed(self, error: Exception) -> None:
        from webhook import metrics  # noqa: PLC0415 - see the class

        metrics.CERTIFICATE_FAILURES.inc()
        logging.getLogger("berthmaster.webhook").error("the new certificate is not used: %s; the last one stays", error)
