"""A first file of placement tests, from what holds now."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from berthmaster.manifests.foreign import PLACEMENT_TEST
from berthmaster.model.errors import InputError
from berthmaster.scheduling.profile import Profile
from berthmaster.simulation.change_set import ChangeSet, PlanIndex, what_if
from berthmaster.simulation.changes import Down
from berthmaster.simulation.expectations import Lack, PlannedFleet
from berthmaster.simulation.losses import running_after
from berthmaster.simulation.results import PlannedWorkload
from berthmaster.simulation.workload import SimulatedWorkload
from berthmaster.simulation.world import World
from berthmaster.views.texts import count_text
from berthmaster_cli.output import complain
from berthmaster_cli.placement_tests.files import API_VERSION, LIVE, MAX_ENTRIES
from berthmaster_cli.placement_tests.running import FleetFlags, Fleets, TestedFleet

_HEAD: Final = (
    "# Written by `berthmaster test --generate` from what holds now: each workload with several groups survives the",
    "# loss of each cluster of its group. Keep what must hold, and remove the rest.",
)
_SURVIVES: Final = {"nowhere": 0, "short": 0}


def write_first_tests(path: Path, fleets: Fleets, paths: Sequence[str], profile: Profile, flags: FleetFlags) -> None:
    """Write a file of tests that hold.

    Args:
        path: the file. An existing one is not replaced.
        paths: the fleet; none for the control plane.

    Raises:
        InputError: the file exists or cannot be written, or no workload survives anything.
    """
    key = tuple(paths) or (LIVE,)
    fleet, world = fleets.fleet(key), fleets.world(key, flags)
    tests = list(_tests(fleet, world, profile, flags, _named(key, path)))
    if not tests:
        raise InputError(
            "no workload with several groups survives the loss of a cluster of its group; try --failover=on"
        )
    text = "---\n".join(_document(each) for each in tests)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in _HEAD) + text)
    except OSError as error:
        raise InputError(f"--generate {path}: cannot be written: {error.strerror or error}") from None
    complain(f"wrote {count_text(len(tests), 'test')} to {path}")


def _named(paths: Sequence[str], file: Path) -> list[str]:
    """Return the paths of a fleet as the file names them: relative to itself."""
    return list(paths) if paths == (LIVE,) else [os.path.relpath(each, file.parent) for each in paths]


def _tests(
    fleet: TestedFleet, world: World, profile: Profile, flags: FleetFlags, named: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a test for each cluster whose loss some workloads with several groups survive."""
    index = PlanIndex(world, profile)
    now = fleet.outcome(index, ChangeSet())
    grouped = [each for each in now.rows if _has_groups(each.after.workload) and now.lack(each) is Lack.NOTHING]
    for cluster in sorted({name for each in grouped for name in running_after(each, now.hosts)}):
        here = {each.resource for each in grouped if cluster in running_after(each, now.hosts)}
        lost = fleet.outcome(index, what_if([Down(cluster)], world))
        rows = {each.resource: each for each in lost.rows}
        kept = [_expected(rows[each], lost) for each in sorted(here) if lost.lack(rows[each]) is Lack.NOTHING]
        for each in sorted(here):
            if lost.lack(rows[each]) is not Lack.NOTHING:
                complain(f"not written: {each} does not survive the loss of {cluster}")
        if kept:
            yield {
                "apiVersion": API_VERSION,
                "kind": PLACEMENT_TEST,
                "metadata": {"name": f"what survives the loss of {cluster}"},
                "fleet": named[0] if len(named) == 1 else list(named),
                "failover": flags.failover,
                "preemption": flags.preemption,
                "given": [{"down": {"cluster": cluster}}],
                "expect": kept[:MAX_ENTRIES],
            }


def _has_groups(workload: SimulatedWorkload) -> bool:
    placement = workload.binding.spec.placement if workload.binding is not None else None
    return placement is not None and len(placement.cluster_affinities or ()) > 1


def _expected(planned: PlannedWorkload, outcome: PlannedFleet) -> dict[str, Any]:
    clusters = sorted(running_after(planned, outcome.hosts))
    group = {"group": planned.after.group} if planned.after.group else {}
    return {"workload": planned.resource, **group, "clusters": {"in": clusters}, **_SURVIVES}


def _document(test: dict[str, Any]) -> str:
    """Return a test as YAML, with one line for each change and each expectation."""
    listed = {"given", "expect"}
    text = yaml.safe_dump({key: each for key, each in test.items() if key not in listed}, sort_keys=False)
    for name in sorted(listed & test.keys(), reverse=True):
        lines = (_flow(each) for each in test[name])
        text += "".join((f"{name}:\n", *(f"- {line}" for line in lines)))
    return text


def _flow(value: object) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=sys.maxsize)
    return text
