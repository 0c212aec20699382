"""Reads lists and objects of an API server page by page, within limits of size and time."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from berthmaster.kube import requests
from berthmaster.kube.client import APIClient, ask, ask_if_found
from berthmaster.kube.listing import TOO_DEEP, TOO_LARGE, Unread, bounded, pages
from berthmaster.kube.responses import MAX_DEPTH, decode_response, decode_shallow
from berthmaster.kube.served_types import ServedType
from berthmaster.manifests.document import Document
from berthmaster.manifests.files import deeper_than
from berthmaster.manifests.limits import DEFAULT_LIMITS
from berthmaster.manifests.snapshot import ListRecord
from berthmaster.model.errors import ApiError, InputError, ResponseTooLargeError
from berthmaster.model.gaps import Gap, few, unread_object
from berthmaster.model.meta import Key, object_name
from berthmaster_cli.output import stderr

_ATTEMPTS: Final = 3
_FIRST_WAIT_S: Final = 0.5
_MAX_WAIT_S: Final = 10.0
_MIN_TIMEOUT_S: Final = 0.1


_SHARE: Final = 0.75
"""The part of what is read that one namespace may fill."""
_FULL: Final = Unread("is not read: its namespace has too many or too large objects; read it alone with -n")


class ReadLimits(NamedTuple):
    """The limits of reading a control plane. ``lease`` is the Lease of the controllers; None to read none."""

    timeout_s: float = 120.0
    objects: int = DEFAULT_LIMITS.documents
    total_bytes: int = 2**30
    lease: Key | None = None


class ListingBars:
    """One bar for each list. The bars vanish at the end of the ``with`` block."""

    def __init__(self) -> None:
        columns = (TextColumn("reading {task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty())
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def listed(self, resource: str, objects: int, expected: int) -> None:
        """Note that a page arrived: the number of objects so far, and the expected number. Any thread may call it."""
        with self._lock:
            if resource not in self._tasks:
                self._tasks[resource] = self._progress.add_task(resource)
            self._progress.update(self._tasks[resource], completed=objects, total=max(expected, 1))


class Listing(NamedTuple):
    """The objects of a list, or single objects, the record of the read, and the objects that are not read."""

    documents: list[Document]
    record: ListRecord
    gaps: Sequence[Gap] = ()


class CollectionReader:
    """Reads from one API server. Safe for several threads."""

    def __init__(
        self,
        client: APIClient,
        server: str,
        limits: ReadLimits,
        progress: ListingBars,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.server = server
        self._client = client
        self._limits = limits
        self._progress = progress
        self._sleep = sleep
        self._deadline_s = time.monotonic() + limits.timeout_s
        self._lock = threading.Lock()
        self._objects = 0
        self._bytes = 0
        self._of_namespace: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))

    def list(self, served: ServedType, namespace: str = "", *, metadata_only: bool = False) -> Listing:
        """List all objects of a type. If the server forgets the version of the list, it is listed again once."""
        try:
            return self._list(served, namespace, metadata_only=metadata_only)
        except ApiError as error:
            if not error.expired:
                raise
            return self._list(served, namespace, metadata_only=metadata_only)

    def get(self, served: ServedType, key: Key, *, metadata_only: bool = False) -> Document | Gap | None:
        """Get one object; None if it does not exist, and a gap if it is not read."""
        accept = requests.ONLY_METADATA if metadata_only else requests.JSON
        request = requests.APIRequest(served.collection.object(key), read_timeout_s=self._timeout_s(), accept=accept)
        try:
            body = self._patiently(lambda: ask_if_found(self._client, request))
        except ResponseTooLargeError:
            return self._read(served, key, TOO_LARGE)
        if body is None:
            return None
        self._admits("", len(body))
        return self._read(served, key, bounded(decode_shallow(msgspec.Raw, body, str(request))))

    def _list(self, served: ServedType, namespace: str, *, metadata_only: bool) -> Listing:
        documents: list[Document] = []
        gaps: list[Gap] = []
        version = ""
        accept = requests.ONLY_METADATA_LIST if metadata_only else requests.JSON
        for part in pages(self._page, served.collection, namespace=namespace, accept=accept):
            for key, content in part.objects:
                size = 0 if isinstance(content, Unread) else memoryview(content).nbytes
                # With one namespace alone, no objects of others are left out.
                admitted = self._admits("" if namespace else key[0], size)
                found = self._read(served, key, content if admitted else _FULL)
                if isinstance(found, Gap):
                    gaps.append(found)
                else:
                    documents.append(found)
            version = part.version
            self._progress.listed(str(served), len(documents), len(documents) + part.remaining)
        now = datetime.now(UTC).replace(microsecond=0)
        record = ListRecord(str(served), namespace, version, len(documents), now, metadata_only)
        return Listing(documents, record, few(gaps))

    def _page(self, request: requests.APIRequest) -> bytes:
        body: bytes = self._patiently(lambda: ask(self._client, request._replace(read_timeout_s=self._timeout_s())))
        return body

    def _read(self, served: ServedType, key: Key, content: msgspec.Raw | Unread) -> Document | Gap:
        """Decode an object, or return the gap that names it."""
        problem = content.problem if isinstance(content, Unread) else ""
        if not isinstance(content, Unread):
            raw = decode_response(dict[str, Any], bytes(content), f"{served} {object_name(*key)}")
            if not deeper_than(raw, MAX_DEPTH):
                return self._document(served, raw)
            problem = TOO_DEEP.problem
        return unread_object(served.kind, key, problem)

    def _document(self, served: ServedType, raw: dict[str, Any]) -> Document:
        """Return an object with its type, which servers omit in lists, and without managed fields."""
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise ApiError(0, "", f"{self.server} sent an object of {served} without a name")
        metadata.pop("managedFields", None)
        raw = {**raw, "apiVersion": served.api_version, "kind": served.kind}
        name = object_name(metadata.get("namespace"), metadata["name"])
        return Document(f"{self.server}: {served.kind} {name}", 0, "", raw)

    def _patiently(self, send: Callable[[], Any]) -> Any:  # noqa: ANN401 - what ``send`` returns
        """Send a request. If the server is overloaded, wait as long as it says and send it again."""
        for attempt in range(_ATTEMPTS):
            try:
                return send()
            except ApiError as error:
                if not error.status or not error.unavailable or attempt == _ATTEMPTS - 1:
                    raise
                self._sleep(min(error.retry_after_s or _FIRST_WAIT_S * 2**attempt, _MAX_WAIT_S, self._timeout_s()))
        raise AssertionError("the last attempt returns or raises")

    def _timeout_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise InputError(
                f"{self.server}: reading took longer than {self._limits.timeout_s:g} s; read one namespace with -n, or "
                "allow more with --read-timeout-s"
            )
        return max(min(left_s, requests.READ_TIMEOUT_S), _MIN_TIMEOUT_S)

    def _admits(self, namespace: str, size: int) -> bool:
        """Count an object. Return whether it is read: one namespace gets a part of what is read of all.

        Raises ``InputError`` above the limits.
        """
        with self._lock:
            objects, held = self._of_namespace[namespace]
            most, most_bytes = _SHARE * self._limits.objects, _SHARE * self._limits.total_bytes
            if namespace and (objects + 1 > most or held + size > most_bytes):
                return False
            self._of_namespace[namespace] = objects + 1, held + size
            self._objects += 1
            self._bytes += size
            exceeded = self._objects > self._limits.objects or self._bytes > self._limits.total_bytes
        if exceeded:
            raise InputError(
                f"{self.server}: more than {self._limits.objects} objects or {self._limits.total_bytes} bytes; read "
                "one namespace with -n"
            )
        return True
