"""The command ``berthmaster test``."""

from pathlib import Path
from typing import Final

import click

from berthmaster.manifests.foreign import PLACEMENT_TEST
from berthmaster_cli.flags import argument, option, options
from berthmaster_cli.main import EXIT_BAD_INPUT, EXIT_CHECK_FAILED
from berthmaster_cli.output import complain, counting
from berthmaster_cli.placement_tests import reports
from berthmaster_cli.placement_tests.files import LIVE, read_tests
from berthmaster_cli.placement_tests.generating import write_first_tests
from berthmaster_cli.placement_tests.running import FleetFlags, Fleets, TestVerdict, run_test
from berthmaster_cli.scheduling_options import profile_from
from berthmaster_cli.watching import WatchFlags, watched

_EXIT_CODES: Final = (
    "Exit codes: 0 all tests pass; 1 a test fails; 2 bad usage, a file is wrong, or a name in it matches nothing. "
    "All tests run in any case."
)


class _TestFlags(FleetFlags, WatchFlags):
    tests: tuple[str, ...] = argument(nargs=-1, metavar="[PATH]...")
    paths: tuple[str, ...] = option(
        "Test this fleet instead of the fleets that the files name: a file, a folder, a dump. Repeatable.",
        type=click.Path(), names=("-f", "--filename"), metavar="PATH",
    )  # fmt: skip
    output: str = option(
        "Output format.", "text", click.Choice(reports.FORMATS), names=("-o", "--output")
    )  # fmt: skip
    within: Path | None = option(
        "Refuse files of fleets and changes that are outside of this folder, for tests that others write.",
        type=click.Path(file_okay=False, exists=True, path_type=Path), metavar="FOLDER",
    )  # fmt: skip
    generate: Path | None = option(
        "Write a first file of tests from what holds now: each workload with several groups, and each loss of a "
        "cluster of its group that it survives. The fleet is that of -f, or the control plane."
    )


@click.command(epilog=_EXIT_CODES)
@options(_TestFlags, server="the control plane of tests with `fleet: live`")
@watched("generate")
def command(flags: _TestFlags) -> None:
    """Check that a fleet keeps what files say: after losses, scales and changes of policies.

    A file has one or more PlacementTests. Each names a fleet, changes, and what must hold after them. It changes
    nothing: the answer is that of `berthmaster plan` and `berthmaster simulate`.

    \b
    Examples:
      berthmaster test tests/
      berthmaster test tests/ -o junit > report.xml
      berthmaster test --generate tests/first.yaml -f fleet/
    """
    profile = profile_from(flags)
    fleets = Fleets(flags, flags.paths, flags.within)
    if flags.generate is not None:
        if flags.tests:
            raise click.UsageError("--generate cannot be combined with files of tests")
        write_first_tests(flags.generate, fleets, flags.paths, profile, flags)
        return
    if not flags.tests:
        raise click.UsageError("nothing to test: name files or folders with tests, or use --generate")
    files = read_tests(flags.tests, needs_fleet=not flags.paths)
    for each in files.passed_over:
        complain(f"passed over: {each.source} {each.reason}")
    if not files.tests and not files.problems:
        raise click.UsageError(f"there is no {PLACEMENT_TEST} in {', '.join(flags.tests)}")
    if files.tests and (flags.paths or not any(LIVE in each.fleet for each in files.tests)):
        flags.refuse_manner_of_files("write `fleet: live` in a test, and leave out -f")
    results = []
    with counting("Testing", "tests") as progress:
        for test in files.tests:
            results.append(run_test(test, fleets, profile, flags))
            progress(len(results), len(files.tests))
    reports.write(results, files.problems, flags.output)
    if files.problems or any(each.verdict is TestVerdict.INVALID for each in results):
        raise SystemExit(EXIT_BAD_INPUT)
    if any(each.verdict is TestVerdict.FAILED for each in results):
        raise SystemExit(EXIT_CHECK_FAILED)
