"""Where the state comes from."""

from typing import Protocol

from extender.state.state import State


class Source(Protocol):
    """Feeds a state: a folder of manifests, a watched API server.

    Whatever goes wrong after the start is told through ``State.mark_stale``, the log and the metrics, and what was
    known stays.
    """

    def start(self, state: State) -> None:
        """Begin to feed, from a thread of its own. May return before there is anything.

        Raises:
            InputError: it can never work as it is configured.
        """

    def stop(self) -> None:
        """Stop feeding, soon."""
