"""An answer that is there already, as an ``APIClient`` gives it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager


class ReadyAnswer(AbstractContextManager["ReadyAnswer"]):
    """See ``berthmaster.kube.client.APIResponse``."""

    def __init__(
        self,
        chunks: Iterable[bytes],
        headers: Mapping[str, list[str]] | None = None,
        abort: Callable[[], None] = lambda: None,
    ) -> None:
        self._chunks = chunks
        self._headers = headers or {}
        self.abort = abort

    def __exit__(self, *_: object) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def header(self, name: str) -> list[str]:
        return self._headers.get(name, [])
