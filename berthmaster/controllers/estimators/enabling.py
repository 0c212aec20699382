"""Estimators as the command's options ask for them."""

import os
from dataclasses import dataclass, field

from berthmaster.controllers.estimators.addresses import Naming
from berthmaster.controllers.estimators.estimators import Estimators, Meter
from berthmaster.controllers.estimators.tls import TLSOptions
from berthmaster.kube.client import APIClient
from berthmaster.model.errors import InputError
from berthmaster.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Settings:
    """How to find and trust estimators.

    Attributes:
        naming: their Services.
        tls: what protects the way to them.
    """

    naming: Naming = field(default_factory=Naming)
    tls: TLSOptions = field(default_factory=TLSOptions)


def open_estimators(settings: Settings, client: APIClient, clock: Clock, meter: Meter) -> Estimators:
    """Estimators, found through this connection; to be closed in the end.

    Raises:
        InputError: the options contradict each other, a file of theirs is not fit for use, or gRPC is not installed.
    """
    settings.tls.check()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its lines are not JSON, and what fails is told here
    try:
        from berthmaster.controllers.estimators.channels import GRPCDirectory  # noqa: PLC0415 - optional: only who asks needs it
    except ModuleNotFoundError as error:
        raise InputError(
            f"scheduler estimators are asked over gRPC, and {error.name} is not installed: "
            "pip install 'berthmaster[estimator]', or leave them disabled"
        ) from None
    return Estimators(GRPCDirectory(client, settings.naming, settings.tls), clock, meter)
