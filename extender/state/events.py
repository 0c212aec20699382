"""The events of a binding, read from the API server at each question: there are many, and people look at few."""

from collections.abc import Callable
from typing import Final

from berthmaster.kube.client import APIClient, ask
from berthmaster.kube.events import EVENTS
from berthmaster.kube.requests import APIRequest
from berthmaster.kube.responses import ListMeta, decode_shallow
from berthmaster.model.binding import Binding
from berthmaster.model.meta import Value
from berthmaster.model.policy_defaults import DEFAULT_NAMESPACE
from berthmaster.native_api.why import BindingEvent

MAX_EVENTS: Final = 500
"""The most events of one binding that are read. An API server lists them by name, not by time."""
_READ_TIMEOUT_S: Final = 1.5
AskForEvents = Callable[[Binding], tuple[list[BindingEvent], bool]]
"""Reads the events of a binding as ``read_events`` does."""


class _Series(Value, frozen=True):
    count: int = 0
    last_observed_time: str = ""


class _Source(Value, frozen=True):
    component: str = ""


class _EventMeta(Value, frozen=True):
    creation_timestamp: str = ""


class _Event(Value, frozen=True):
    """An event of ``events.k8s.io/v1``. Recorders of the core API fill the deprecated fields."""

    metadata: _EventMeta = _EventMeta()
    event_time: str | None = None
    type: str = ""
    reason: str = ""
    note: str = ""
    series: _Series | None = None
    reporting_controller: str = ""
    deprecated_source: _Source | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0


class _EventPage(Value, frozen=True):
    metadata: ListMeta
    items: list[_Event] | None = None


def read_events(client: APIClient, binding: Binding) -> tuple[list[BindingEvent], bool]:
    """Return the events of a binding, the latest first, and whether there are others. Sends one request.

    Raises:
        ApiError: the API server does not list them in time, or not to this client.
    """
    metadata = binding.metadata
    # Events about cluster-scoped objects are in this namespace.
    path = EVENTS.within(metadata.namespace or DEFAULT_NAMESPACE)
    named = f"regarding.kind={binding.kind},regarding.name={metadata.name}"
    query = (("limit", str(MAX_EVENTS)), ("fieldSelector", named))
    page = decode_shallow(_EventPage, ask(client, APIRequest(path, query, _READ_TIMEOUT_S)), "events")
    found = sorted(map(_shown, page.items or ()), key=lambda each: each.time, reverse=True)
    return found, bool(page.metadata.continue_)


def _shown(event: _Event) -> BindingEvent:
    series, source = event.series, event.deprecated_source
    last = (series.last_observed_time if series is not None else "") or event.deprecated_last_timestamp
    return BindingEvent(
        last or event.event_time or event.metadata.creation_timestamp,
        event.type,
        event.reason,
        event.note,
        max(1, series.count if series is not None else event.deprecated_count),
        event.reporting_controller or (source.component if source is not None else ""),
    )
