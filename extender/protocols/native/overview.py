"""``/v1/bindings/.../overview``: all that the state says about one binding, in one answer."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from berthmaster.model.reader import Reader
from berthmaster.native_api.outlook import BindingOverview
from extender.protocols.native.bindings import described, explained
from extender.protocols.native.outlook import binding_outlook
from extender.protocols.native.visible import visible_binding, visible_decision
from extender.protocols.native.why import claims_of
from extender.protocols.problem import Refusal
from extender.protocols.services import Services

T = TypeVar("T")
_LEFT_OUT: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
"""A placement with very many groups is not explained, and an installation may lack what a part needs."""


def binding_overview(
    services: Services, namespace: str, name: str, group: str | None, reader: Reader
) -> BindingOverview:
    """Return a binding, the decision on it, what each of its groups could hold, and who claims its workload.

    Args:
        services: the resources of the service.
        namespace: that of the binding; empty for a cluster-scoped one.
        name: the name of the binding.
        group: as in ``binding_outlook``.
        reader: the reader of the answer.

    Raises:
        Refusal: bindings are not watched, or there is no such binding or group.
    """
    version = services.state.version
    binding = described(services, namespace, name)
    missing: dict[str, str] = {}

    def part(title: str, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except Refusal as refusal:
            if refusal.status not in _LEFT_OUT:
                raise
            missing[title] = refusal.detail
            return None

    decision = part("decision", lambda: visible_decision(explained(services, namespace, name), reader))
    outlook = part("outlook", lambda: binding_outlook(services, namespace, name, group))
    claims = part("claims", lambda: claims_of(services, namespace, name))
    return BindingOverview(visible_binding(binding, reader), decision, outlook, claims, missing, version)
