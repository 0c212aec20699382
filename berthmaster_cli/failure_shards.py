"""Failures on several processors, and in shards on several machines."""

import gc
import multiprocessing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
from rich.progress import Progress

from berthmaster.model.decode import decode_json
from berthmaster.model.errors import FieldError, InputError
from berthmaster.simulation.assumptions import Assumptions
from berthmaster.simulation.failures import DomainLoss, Failures, Impact
from berthmaster_cli.output import stderr

T = TypeVar("T")

_CHUNKS: Final = 16
"""How many parts of the failures each process gets. More show the progress better."""
_SIMULATED: Final[list[Failures]] = []
"""The failures that the processes of a pool simulate. They get them from their parent, without a copy."""


class Shard(NamedTuple):
    """Every ``of``-th failure, from the one with this number on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse ``NUMBER/OF``."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise InputError(f"--shard {text!r} is no shard; use NUMBER/OF with numbers from 0, such as 0/10 to 9/10")
        return cls(int(number), int(of))


class ShardResult(msgspec.Struct, frozen=True, rename="camel"):
    """The impacts of a shard, in the order of the failures, and what all shards have in common."""

    number: int
    of: int
    failures: int
    workloads: int
    clusters: list[str]
    assumptions: Assumptions
    impacts: list[Impact]


def simulated(failures: Failures, lost: Sequence[DomainLoss], jobs: int) -> list[Impact]:
    """Return what each failure does, in the order of the failures."""
    if jobs == 1:
        return _with_progress(map(failures.impact, lost), len(lost), 1)
    size = max(1, len(lost) // (jobs * _CHUNKS))
    chunks = [lost[first : first + size] for first in range(0, len(lost), size)]
    _SIMULATED.append(failures)
    gc.freeze()  # otherwise the first collection of each process copies all pages
    try:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            parts = pool.imap(_impacts, chunks)
            return [each for part in _with_progress(parts, len(lost), size) for each in part]
    finally:
        gc.unfreeze()
        _SIMULATED.clear()


def _impacts(lost: Sequence[DomainLoss]) -> list[Impact]:
    return list(map(_SIMULATED[0].impact, lost))


def merged(paths: Sequence[Path]) -> ShardResult:
    """Return the results of all shards as one.

    Raises:
        InputError: a file cannot be read, a shard is missing or there twice, or the shards are of different states.
    """
    found: dict[int, ShardResult] = {}
    for path in paths:
        part = _read(path)
        first = next(iter(found.values()), part)
        if (part.of, part.failures, part.workloads, part.clusters) != (
            first.of, first.failures, first.workloads, first.clusters,
        ):  # fmt: skip
            raise InputError(
                f"--merge {path}: it is of another state than the other shards; use one dump for all shards"
            )
        if part.number in found:
            raise InputError(f"--merge {path}: shard {part.number}/{part.of} is there twice")
        found[part.number] = part
    first = next(iter(found.values()))
    missing = [f"{number}/{first.of}" for number in range(first.of) if number not in found]
    if missing:
        raise InputError(f"--merge: shards are missing: {', '.join(missing[:10])}")
    impacts = [found[each % first.of].impacts[each // first.of] for each in range(first.failures)]
    return msgspec.structs.replace(first, number=0, of=1, impacts=impacts)


def _read(path: Path) -> ShardResult:
    try:
        found = decode_json(ShardResult, path.read_bytes())
    except OSError as error:
        raise InputError(f"--merge {path}: cannot be read: {error.strerror or error}") from None
    except FieldError as error:
        raise InputError(f"--merge {path}: it is not what --shard writes: {error}") from None
    if not 0 <= found.number < found.of or len(found.impacts) != len(range(found.number, found.failures, found.of)):
        raise InputError(f"--merge {path}: the shard is incomplete")
    return found


def _with_progress(parts: Iterable[T], total: int, size: int) -> list[T]:
    """Return the parts. Count the failures on standard error if it is a terminal; each part has ``size`` of them."""
    console = stderr()
    form = "{task.completed} of {task.total} failures"
    done: list[T] = []
    with Progress("Simulating", form, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        for part in parts:
            done.append(part)
            bar.update(task, advance=size)
    return done
