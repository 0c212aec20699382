"""Karmada's scheduler estimators, as the binding scheduler asks them."""

from collections.abc import Mapping

from berthmaster.controllers.controller_context import ControllerContext
from berthmaster.controllers.estimators.addresses import Naming
from berthmaster.controllers.estimators.bounds import Question
from berthmaster.controllers.estimators.enabling import Settings, open_estimators
from berthmaster.controllers.estimators.estimators import Estimators, Meter
from berthmaster.controllers.estimators.tls import TLSOptions
from berthmaster.controllers.settings import EstimatorSettings
from berthmaster.kube.requests import Key
from berthmaster.model.cluster import Cluster


class Estimating:
    """The estimators of the clusters that are there."""

    def __init__(self, estimators: Estimators, timeout_s: float) -> None:
        self._estimators = estimators
        self._timeout_s = timeout_s

    def ask(self, question: Question) -> Mapping[str, int]:
        """What the estimators say in time; it waits for them."""
        return question.put(self._estimators, self._timeout_s)

    def cluster_changed(self, _key: Key, before: Cluster | None, after: Cluster | None) -> None:
        """See ``Handler``."""
        if after is not None:
            self._estimators.add(after.name)
        elif before is not None:
            self._estimators.remove(before.name)

    def close(self) -> None:
        """Hang up."""
        self._estimators.close()


def estimating(settings: EstimatorSettings, context: ControllerContext, meter: Meter) -> Estimating:
    """The estimators that the settings mean.

    Raises:
        InputError: see ``open_estimators``.
    """
    tls = TLSOptions(settings.ca_file, settings.cert_file, settings.key_file, insecure_skip_verify=not settings.verify)
    naming = Naming(settings.namespace, settings.prefix, settings.port)
    estimators = open_estimators(Settings(naming, tls), context.client, context.clock, meter)
    return Estimating(estimators, settings.timeout_s)
