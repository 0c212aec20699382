"""The resource templates of a watched control plane: one watch for each kind that a binding names or a policy selects.

A control plane can have any kinds, and kinds come and go. A kind that cannot be watched is a gap and no error: the
workloads of its bindings are known without their templates.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from berthmaster.kube.client import APIClient, MetadataOnlyClient
from berthmaster.kube.informer import Informer
from berthmaster.kube.served_types import Discovery
from berthmaster.manifests import Document
from berthmaster.manifests.redaction import redacted
from berthmaster.model.decode import decode_json, encode_json
from berthmaster.model.errors import ApiError, FieldError
from berthmaster.model.gaps import Gap, GapKind, unread_object
from berthmaster.model.kinds import metadata_suffices
from berthmaster.model.meta import Key, object_name
from berthmaster.model.overrides import OVERRIDE_KINDS
from berthmaster.model.shared_parts import SharedParts
from berthmaster.model.taint_policy import TAINT_POLICY, TAINT_POLICY_API
from berthmaster.runtime.clock import Clock
from berthmaster.runtime.logs import log_exceptions
from extender.state.fingerprint import Fingerprint, difference_of, digest

MAX_KINDS: Final = 64
MAX_ASKED: Final = 16
"""How many kinds are watched only because a request asked for them."""
ASKED_S: Final = 600.0
"""How long such a kind is watched after the last request for it."""
RETRY_S: Final = 30.0
"""How often kinds that are not served are looked up again. Discovery responses are cached as long."""
_LOG: Final = logging.getLogger("berthmaster.extender")
_UNUSED_METADATA: Final = (
    "resourceVersion", "generation", "selfLink", "ownerReferences", "finalizers", "creationTimestamp",
)  # fmt: skip
_PARTS: Final = SharedParts(4 * 2**20)
_DEPTH: Final = 10


class KindName(NamedTuple):
    """A kind and its API version."""

    api_version: str
    kind: str

    def gap(self, kind: GapKind, **facts: str) -> Gap:
        return Gap(kind, facts={"kind": self.kind, "api_version": self.api_version, **facts})


TAINT_POLICIES: Final = KindName(TAINT_POLICY_API, TAINT_POLICY)
OVERRIDES: Final = tuple(KindName(TAINT_POLICY_API, each) for each in OVERRIDE_KINDS)
_ALWAYS: Final = frozenset({TAINT_POLICIES, *OVERRIDES})
"""Watched always. A release of Karmada that does not serve them has none of them, which is no gap."""


class _KindWatch(NamedTuple):
    informer: Informer[Document]
    fingerprint: Fingerprint


class TemplateWatches:
    """Watches the templates of the kinds that are wanted. A thread of its own asks which kinds are served.

    Decisions do not depend on environments, images and data, so these are not kept. Kinds of which only metadata
    matters, such as Secrets, are read as metadata.

    Args:
        contacted: called after each message of the server, and after an attempt to start watches.
        owner: the annotation that names the owner of a workload, which is kept; empty for none.

    Attributes:
        version: another object after each change of a template.
    """

    def __init__(self, clock: Clock, contacted: Callable[[], None], owner: str = "") -> None:
        self._clock = clock
        self._owner = owner
        self._report = contacted
        self.version = object()
        self._changed = threading.Condition()
        self._named: frozenset[KindName] = frozenset()
        self._asked: OrderedDict[KindName, float] = OrderedDict()
        self._wanted: frozenset[KindName] | None = None
        self._handled: frozenset[KindName] | None = None
        self._running: dict[KindName, _KindWatch] = {}
        self._refused: dict[KindName, Gap] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def start(self, client: APIClient) -> None:
        run = partial(self._run, client, Discovery(client, self._clock))
        threading.Thread(target=run, name="template-watches", daemon=True).start()

    def stop(self) -> None:
        """Stop all watches. The templates stay."""
        self._stopping.set()
        self._wake.set()
        for each in list(self._running.values()):
            each.informer.stop()

    def want(self, kinds: Collection[KindName]) -> None:
        """Watch these kinds, and those that a request asked for, and no others. Returns at once."""
        with self._changed:
            self._named = frozenset({*kinds, *_ALWAYS})
            self._update_wanted()

    def watch(self, kinds: Collection[KindName], timeout_s: float) -> None:
        """Watch these kinds too, for some time, and wait until their templates are listed."""
        with self._changed:
            for kind in kinds:
                self._asked[kind] = self._clock.monotonic_s() + ASKED_S
                self._asked.move_to_end(kind)
            while len(self._asked) > MAX_ASKED:
                self._asked.popitem(last=False)
            self._update_wanted()
            self._changed.wait_for(lambda: not any(map(self._is_pending, kinds)), timeout_s)

    def unknown(self, kinds: Iterable[KindName]) -> Gap | None:
        """Return why the templates of one of these kinds are not known; None if all are.

        Templates of a kind that is not served do not exist, so nothing is unknown about it.
        """
        return next(filter(None, map(self._why_unknown, kinds)), None)

    def has(self, kind: KindName, key: Key) -> bool | None:
        informer = self._informer(kind)
        return informer.get(key) is not None if informer is not None and informer.listed else None

    def fingerprint(self) -> int:
        """Return the fingerprint of the templates of kinds that bindings and policies name.

        Kinds that only a request asked for do not count: another process may not have been asked.
        """
        running = dict(self._running)
        named = [running[kind] for kind in self._named if kind in running]
        unread = (each for watch in named for each in watch.informer.unread())
        return sum(each.fingerprint.value for each in named) + sum(digest(encode_json(each)) for each in unread)

    def _template_changed(
        self, fingerprint: Fingerprint, _key: Key, before: Document | None, after: Document | None
    ) -> None:
        self.version = object()
        fingerprint.add(difference_of(before and before.raw, after and after.raw))

    def _informer(self, kind: KindName) -> Informer[Document] | None:
        watch = self._running.get(kind)
        return watch.informer if watch is not None else None

    def _informers(self) -> list[tuple[KindName, Informer[Document]]]:
        return [(kind, each.informer) for kind, each in list(self._running.items())]

    def _update_wanted(self) -> None:
        """Update the wanted kinds. The caller holds the lock."""
        now_s = self._clock.monotonic_s()
        for kind in [each for each, until_s in self._asked.items() if until_s <= now_s]:
            del self._asked[kind]
        wanted = self._named | self._asked.keys()
        if wanted != self._wanted:
            self._wanted = wanted
            self._wake.set()

    def _is_pending(self, kind: KindName) -> bool:
        informer = self._informer(kind)
        if informer is not None:
            return not (informer.listed or informer.problem)
        return self._handled is None or kind not in self._handled

    def _why_unknown(self, kind: KindName) -> Gap | None:
        informer = self._informer(kind)
        if informer is not None:
            return _unlisted(kind, informer)
        refused = self._refused.get(kind)
        if refused is None:
            return kind.gap(GapKind.NOT_WATCHED_YET)
        return None if refused.kind is GapKind.NOT_WATCHABLE else refused

    def _contacted(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self._report()

    @property
    def settled(self) -> bool:
        """Whether each wanted kind is listed, or it is known why not."""
        wanted = self._wanted
        if wanted is None or self._handled != wanted:
            return False
        return all(each.listed or each.problem for _, each in self._informers())

    def get(self, kind: KindName, key: Key) -> Document | None:
        informer = self._informer(kind)
        return informer.get(key) if informer is not None else None

    def items(self, kind: KindName) -> Iterator[Document]:
        informer = self._informer(kind)
        return (document for _, document in informer.items()) if informer is not None else iter(())

    def kinds(self) -> list[KindName]:
        return sorted(self._running)

    def gaps(self) -> list[Gap]:
        unserved = GapKind.NOT_WATCHABLE
        found = {kind: gap for kind, gap in self._refused.items() if kind not in _ALWAYS or gap.kind is not unserved}
        for kind, informer in self._informers():
            if (gap := _unlisted(kind, informer)) is not None:
                found[kind] = gap
        return [found[kind] for kind in sorted(found)]

    def unread(self) -> Iterator[tuple[KindName, Key, Gap]]:
        """Yield the templates whose present state is not read."""
        for kind, informer in self._informers():
            for key, problem in informer.unread():
                yield kind, key, unread_object(kind.kind, key, problem)

    def problems(self) -> Iterator[tuple[str, datetime]]:
        """Yield why kinds that were listed are stale, and since when."""
        for _, informer in self._informers():
            problem, since = informer.problem, informer.stale_since
            if informer.listed and problem and since is not None:
                yield f"{informer.collection.plural}: {problem}", since

    def _run(self, client: APIClient, discovery: Discovery) -> None:
        while not self._stopping.is_set():
            self._wake.wait(RETRY_S if self._refused else None)
            self._wake.clear()
            # The edge of the thread: without it, a crash would leave new kinds unwatched and unreported.
            log_exceptions(partial(self._sync, client, discovery), _LOG, "the kinds of templates could not be watched")

    def _sync(self, client: APIClient, discovery: Discovery) -> None:
        """Start and stop watches until they are those of the wanted kinds."""
        wanted = self._wanted
        if wanted is None or self._stopping.is_set():
            return
        for kind in self._running.keys() - wanted:
            self._running.pop(kind).informer.stop()
            self.version = object()
        attempts = ((kind, self._begin(client, discovery, kind)) for kind in sorted(wanted - self._running.keys()))
        self._refused = {kind: gap for kind, gap in attempts if gap is not None}
        self._handled = wanted
        self._contacted()

    def _begin(self, client: APIClient, discovery: Discovery, kind: KindName) -> Gap | None:
        """Start the watch of a kind. Return why that is not possible; None if it is."""
        if len(self._running) >= MAX_KINDS:
            return kind.gap(GapKind.TOO_MANY_KINDS, limit=str(MAX_KINDS))
        try:
            served = discovery.find(*kind)
        except ApiError as error:
            return kind.gap(GapKind.DISCOVERY_FAILED, error=str(error))
        if served is None:
            return kind.gap(GapKind.NOT_WATCHABLE)
        informer: Informer[Document] = Informer(
            served.collection, partial(read_template, kind, owner=self._owner), self._clock
        )
        fingerprint = Fingerprint()
        informer.subscribe(partial(self._template_changed, fingerprint))
        informer.on_contact(self._contacted)
        self._running[kind] = _KindWatch(informer, fingerprint)
        self.version = object()
        informer.start(MetadataOnlyClient(client) if metadata_suffices(*kind) else client)
        return None


def _unlisted(kind: KindName, informer: Informer[Document]) -> Gap | None:
    """Return the gap of a kind whose list did not arrive; None if it did."""
    if informer.listed:
        return None
    return kind.gap(GapKind.NOT_LISTED, problem=informer.problem or "the list is being read")


def read_template(kind: KindName, raw: bytes, *, owner: str = "") -> Document:
    """Decode a template, reduced to what decisions depend on. Raises ``FieldError`` if it has no name.

    The annotation ``owner`` is kept, too.

    Templates share their equal parts, such as the containers of one team, and labels that stand in several places.
    """
    decoded = decode_json(dict[str, Any], raw)
    metadata = decoded.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise FieldError("metadata.name", "a name is required")
    reduced = redacted({**decoded, "apiVersion": kind.api_version, "kind": kind.kind})
    annotations = metadata.get("annotations")
    if owner and isinstance(annotations, dict) and isinstance(annotations.get(owner), str):
        reduced["metadata"].setdefault("annotations", {})[owner] = annotations[owner]
    for field in _UNUSED_METADATA:
        reduced["metadata"].pop(field, None)
    if metadata_suffices(*kind):
        reduced = {each: reduced[each] for each in ("apiVersion", "kind", "metadata")}
    name = object_name(metadata.get("namespace"), metadata["name"])
    return Document(f"{kind.kind} {name}", 0, "", {key: _shared(value) for key, value in reduced.items()})


def _shared(value: Any, depth: int = _DEPTH) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first equal part of a template, to a depth that bounds the cost."""
    if isinstance(value, str):
        return _PARTS.text(value)
    if isinstance(value, dict) and depth:
        return _PARTS.part("", {_PARTS.text(key): _shared(inner, depth - 1) for key, inner in value.items()})
    if isinstance(value, list) and depth:
        return _PARTS.part("", [_shared(inner, depth - 1) for inner in value])
    return value
