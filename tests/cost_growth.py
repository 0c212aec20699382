"""Find work that grows faster than n log n in the size of an input.

Each list, map and text of an input grows to n and 4n entries, alone and together with another list. The processor time
and the allocated bytes at these sizes show the growth: they grow 4 times if the growth is linear, up to 5 times for
n log n, and 16 times for n squared. Small costs say nothing, so constant work has no effect.

As a program, ``cost_growth.py`` prints what grows too fast and ends with status 1 if anything does.
"""

import argparse
import functools
import gc
import json
import re
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import combinations, islice
from typing import Any, NamedTuple

import msgspec

from berthmaster.model.errors import InputError

JSON = Any
EMBEDDED = "<json>"
"""The part of a path that enters a text that is a JSON document, such as an annotation."""
MAX_RATIO = 8.0
"""n log n has 5 at these sizes, and n squared 16. Linear work in addition hides small squares; greater lengths show
them."""
LEAST = {"microseconds": 30_000, "bytes": 2**20}
"""Smaller costs say nothing."""
LENGTH = 400
RUNS = 2
"""The shortest of so many runs counts: other processes only add time."""
TEXT_FACTOR = 16
"""Texts grow to so many times more characters."""
_PATHS_SHOWN = 4
_NUMBERED = re.compile(r"-0\b")

Path = tuple[str | int, ...]
Work = Callable[[], object]


Growth = dict[str, tuple[int, int]]
"""The costs at two sizes, by ``microseconds`` of processor time of this thread, or the most ``bytes`` at one time."""


class Case(NamedTuple):
    """Parts of a document that grow together: their paths, none of which contains another."""

    where: tuple[Path, ...]
    distinct: bool = True  # whether the copies differ


def shown(where: tuple[Path, ...]) -> str:
    """Return paths as text; a copied entry of a list has no number."""
    steps = [["[]" if isinstance(part, int) else f".{part}" for part in path] for path in where]
    texts = ["".join(path).removeprefix(".") or "(all)" for path in steps]
    more = len(texts) - _PATHS_SHOWN
    return " and ".join([*texts[:_PATHS_SHOWN], *([f"{more} more"] if more > 0 else [])])


def paths(value: JSON, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each list, map and text in a document that is not empty."""
    match value:
        case dict():
            if value and all(_is_numbered(key) for key in value):
                yield path  # a map, and not an object with fixed fields
            for key, entry in value.items():
                yield from paths(entry, (*path, key))
        case list():
            if value:
                yield path
            for index, entry in enumerate(value):
                yield from paths(entry, (*path, index))
        case str():
            document = _embedded(value)
            if document is None:
                yield path
            else:
                yield from paths(document, (*path, EMBEDDED))


def at(value: JSON, path: Path) -> JSON:
    for part in path:
        value = json.loads(value) if part == EMBEDDED else value[part]
    return value


def grown(value: JSON, path: Path, length: int, *, distinct: bool) -> JSON:
    """Return a copy of a document whose list, map or text at a path has a length.

    Args:
        value: the document; it stays as it is.
        path: one of ``paths``.
        length: the number of entries.
        distinct: number the copies, so that each is different; otherwise they are equal.
    """
    if path:
        part, rest = path[0], path[1:]
        if part == EMBEDDED:
            return msgspec.json.encode(grown(json.loads(value), rest, length, distinct=distinct)).decode()
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[part] = grown(value[part], rest, length, distinct=distinct)
        return copy
    match value:
        case dict():
            return dict(pair for copy in _copies([value], length, distinct=True) for pair in copy.items())
        case list():
            return _copies(value, length, distinct=distinct)
    return (value * (length * TEXT_FACTOR // len(value) + 1))[: length * TEXT_FACTOR]


def _is_numbered(key: str) -> bool:
    return _NUMBERED.search(key) is not None


def _copies(entries: list[JSON], length: int, *, distinct: bool) -> list[JSON]:
    """Return so many copies of the entries in turn. Distinct copies have their number in each name."""
    parts = [_NUMBERED.split(json.dumps(entry)) for entry in entries]
    texts = (f"-{each if distinct else 0}".join(parts[each % len(parts)]) for each in range(length))
    copies: list[JSON] = msgspec.json.decode(f"[{','.join(texts)}]")
    return copies


def _embedded(text: str) -> JSON | None:
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def measured(prepare: Callable[[], Work]) -> tuple[int, int]:
    """Return the microseconds and the bytes of a piece of work. It starts with empty caches each time."""
    times_s = []
    for _ in range(RUNS):
        work = _without_caches(prepare)
        begun_s = time.thread_time()
        with suppress(InputError):
            work()
        times_s.append(time.thread_time() - begun_s)
    work = _without_caches(prepare)
    tracemalloc.start(1)
    with suppress(InputError):
        work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return int(min(times_s) * 1e6), peak


def _without_caches(prepare: Callable[[], Work]) -> Work:
    for each in _caches():
        each.cache_clear()
    return prepare()


@functools.cache
def _caches() -> list[Any]:
    return [each for each in gc.get_objects() if isinstance(each, type(_caches)) and each is not _caches]


def growth(document: JSON, prepare: Callable[[JSON], Work], case: Case, length: int = LENGTH) -> Growth:
    """Grow parts of a document together, and return the costs that grow faster than n log n."""
    costs = []
    for entries in (length, 4 * length):
        larger = document
        for path in case.where:
            larger = grown(larger, path, entries, distinct=case.distinct)
        try:
            costs.append(measured(functools.partial(prepare, larger)))
        except InputError:
            return {}  # the environment cannot have this value
    rows = zip(LEAST.items(), *costs, strict=True)
    return {
        measure: (small, large)
        for (measure, least), small, large in rows
        if large > least and large > MAX_RATIO * max(small, least // 16)
    }


def confirmed_growth(document: JSON, prepare: Callable[[JSON], Work], case: Case, length: int = LENGTH) -> Growth:
    """Return what grows too fast at these lengths and at twice these lengths.

    A limit that refuses only one of the inputs can make costs look steep, but not twice.
    """
    suspected = growth(document, prepare, case, length)
    again = growth(document, prepare, case, 2 * length) if suspected else {}
    return {measure: costs for measure, costs in again.items() if measure in suspected}


def levels(document: JSON, environment: Collection[str] = ()) -> Iterator[Case]:
    """Yield all lists and maps that are equally deep inside others, without the environment: the outermost first."""
    containers = [path for path in _containers(document) if not path or path[0] not in environment]
    depths = [sum(_contains(each, path) for each in containers) for path in containers]
    for depth in range(max(depths, default=-1) + 1):
        yield Case(tuple(path for path, deep in zip(containers, depths, strict=True) if deep == depth))


def singles(document: JSON) -> Iterator[Case]:
    """Yield each list, map and text; lists with distinct and with equal copies."""
    for path in paths(document):
        yield Case((path,))
        if isinstance(at(document, path), list):
            yield Case((path,), distinct=False)


def pairs(document: JSON, environment: Collection[str] = (), bounded: Collection[str] = ()) -> Iterator[Case]:
    """Yield each two lists or maps that do not contain each other.

    Args:
        document: the document.
        environment: the top fields of the environment; two of its parts are not combined.
        bounded: the names of lists that are not combined with the environment either.
    """
    for first, second in combinations(_containers(document), 2):
        outside = [path for path in (first, second) if not path or path[0] not in environment]
        combined = len(outside) == 2 or (len(outside) == 1 and not set(outside[0]) & set(bounded))
        if combined and not _contains(first, second) and not _contains(second, first):
            yield Case((first, second))


def _containers(document: JSON) -> list[Path]:
    return [path for path in paths(document) if not isinstance(at(document, path), str)]


def _contains(outer: Path, inner: Path) -> bool:
    return outer != inner and inner[: len(outer)] == outer


def is_chosen(name: str, case: Case, share: float) -> bool:
    """Return whether a case belongs to a share of all cases. The choice depends on the case alone."""
    return zlib.crc32(f"{name} {case}".encode()) < share * 2**32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", action="store_true", help="also the outermost lists of the inputs in CORE")
    parser.add_argument("--levels", type=float, default=1.0, help="the share of all lists of one depth")
    parser.add_argument("--singles", type=float, default=1.0, help="the share of the parts that grow alone")
    parser.add_argument("--pairs", type=float, default=1.0, help="the share of the pairs that grow together")
    parser.add_argument("--length", type=int, default=LENGTH, help="the smaller length; the other is 4 times it")
    parser.add_argument("--only", default="", help="only inputs whose name has this text")
    options = parser.parse_args()
    from cost_inputs import BOUNDED, CORE, inputs  # noqa: PLC0415 - it imports this module

    gc.collect()
    gc.disable()  # a collection in the middle of a measurement would change its time
    tried, findings, begun = 0, 0, time.process_time()
    for name, document, prepare, environment in inputs():
        if options.only not in name:
            continue
        chosen = list(islice(levels(document, environment), 1)) if options.core and name in CORE else []
        for share, cases in (
            (options.levels, levels(document, environment)),
            (options.singles, singles(document)),
            (options.pairs, pairs(document, environment, BOUNDED)),
        ):
            chosen += [case for case in cases if is_chosen(name, case, share)] if share else []
        for case in chosen:
            tried += 1
            for measure, (small, large) in confirmed_growth(document, prepare, case, options.length).items():
                findings += 1
                print(f"{name}: {shown(case.where)}: {small:,} -> {large:,} {measure}", flush=True)  # noqa: T201
    seconds = time.process_time() - begun
    print(f"{tried} cases, {findings} findings, {seconds:.1f} s of processor time")  # noqa: T201
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
