"""The table of plays: what passed, how long it took, and each difference."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from karmada_suite.play import Play, Spec

_Key = tuple[str, str]


def only_first(first: Play, second: Play) -> list[_Key]:
    """Return the specs that pass only in the first of two plays."""
    return sorted(
        key for key, spec in first.specs.items() if spec.passed and key in second.specs and not second.specs[key].passed
    )


def table(plays: Sequence[Play]) -> Iterator[str]:
    """Yield one row for each file of specs, as Markdown."""
    files: dict[str, dict[_Key, None]] = defaultdict(dict)
    for play in plays:
        for key in play.specs:
            files[key[0]][key] = None
    yield f"| Specs | | {' | '.join(play.player for play in plays)} |"
    yield "|---|---|" + "---|" * len(plays)
    for file in sorted(files):
        cells = (_cell([play.specs[key] for key in files[file] if key in play.specs]) for play in plays)
        yield f"| {file} | {len(files[file])} | {' | '.join(cells)} |"
    cells = (_cell(list(play.specs.values())) for play in plays)
    yield f"| all | {sum(map(len, files.values()))} | {' | '.join(cells)} |"


def _cell(specs: Sequence[Spec]) -> str:
    if not specs:
        return "-"
    return f"{sum(each.passed for each in specs)} in {median(each.seconds for each in specs):.1f} s"


def differences(first: Play, second: Play) -> Iterator[str]:
    """Yield the specs that pass in one play only, with the failure in the other one."""
    for passing, failing in ((first, second), (second, first)):
        found = only_first(passing, failing)
        yield f"{len(found)} specs pass only with {passing.player}"
        for key in found:
            yield f"  {key[0]}: {key[1]}"
            yield f"    {' '.join(failing.specs[key].failure.split())[:400]}"


def failures(play: Play) -> Iterator[str]:
    failed = [each for each in play.specs.values() if not each.passed]
    yield f"{play.player}: {len(play.specs) - len(failed)} of {len(play.specs)} specs passed in {play.seconds:.0f} s"
    for each in failed:
        yield f"  {each.file}: {each.name}"
        yield f"    {' '.join(each.failure.split())[:400]}"
