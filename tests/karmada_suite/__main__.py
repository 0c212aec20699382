"""Play Karmada's own end-to-end suite with karmada-scheduler, and with Berthmaster in its place (docs/testing.md)."""

import argparse
import json
import sys
import tempfile
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Final

from e2e.assets import MissingAssetError
from e2e.processes import sigterm_as_ctrl_c
from karmada_suite import schedulers, table
from karmada_suite.plane import SuitePlane, suite_binaries
from karmada_suite.play import Play, play

THEIRS: Final = "karmada-scheduler"
OURS: Final = "berthmaster"


def main() -> int:
    """Play; 1 if a spec passes only with karmada-scheduler, or fails in the only play."""
    chosen = _options()
    try:
        binaries = suite_binaries()
    except MissingAssetError as problem:
        sys.stdout.write(f"skipped: {problem} (docs/testing.md)\n")
        return 0
    folder = (chosen.folder or Path(tempfile.mkdtemp(prefix="karmada-suite-"))).resolve()
    sys.stdout.write(f"{folder}\n")
    plays: list[Play] = []
    with sigterm_as_ctrl_c():
        for player in chosen.player:
            plays.append(_played(player, folder, binaries, chosen))
            (folder / f"{player}.json").write_text(json.dumps(plays[-1].document(), indent=1))
            sys.stdout.write("\n".join(table.failures(plays[-1])) + "\n")
            sys.stdout.flush()
    sys.stdout.write("\n".join(table.table(plays)) + "\n")
    if len(plays) == 1:
        return 0 if plays[0].specs and all(each.passed for each in plays[0].specs.values()) else 1
    sys.stdout.write("\n".join(table.differences(*plays)) + "\n")
    return 1 if not plays[1].specs or table.only_first(*plays) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make karmada-suite", description=__doc__)
    parser.add_argument("--player", choices=(THEIRS, OURS), nargs="+", default=[THEIRS, OURS], help="who schedules")
    parser.add_argument("--focus", action="append", default=[], help="play only specs whose words match; repeatable")
    parser.add_argument("--focus-file", action="append", default=[], help="play only specs of this file; repeatable")
    parser.add_argument("--skip", action="append", default=[], help="do not play specs whose words match; repeatable")
    parser.add_argument("--processes", type=int, default=4, help="how many specs run at once (4)")
    parser.add_argument("--limit-s", type=float, default=7200, help="the time limit of a play (7200)")
    parser.add_argument("--mode", choices=("companion", "standalone"), default="companion", help="of our webhook")
    parser.add_argument(
        "--kill-leader-s", type=float, default=0, help="run two replicas, and kill the leader this often (0: never)"
    )
    parser.add_argument(
        "--refuse-every", type=int, default=0, help="answer each so many requests with 429 or 409 (0: none)"
    )
    parser.add_argument("--folder", type=Path, default=None, help="where logs and reports are put")
    return parser.parse_args()


def _played(player: str, folder: Path, binaries: Path, chosen: argparse.Namespace) -> Play:
    options = [
        f"--{name}={value}"
        for name, values in (("focus", chosen.focus), ("focus-file", chosen.focus_file), ("skip", chosen.skip))
        for value in values
    ]
    ours = player == OURS
    with (
        closing(SuitePlane(folder / player, binaries, schedulers.REPLACED if ours else ())) as plane,
        _scheduler(plane, chosen, ours=ours),
    ):
        return play(plane, binaries, player, processes=chosen.processes, limit_s=chosen.limit_s, options=options)


def _scheduler(plane: SuitePlane, chosen: argparse.Namespace, *, ours: bool) -> AbstractContextManager[None]:
    if not ours:
        return schedulers.karmada_scheduler(plane)
    return schedulers.berthmaster(
        plane, chosen.mode, kill_leader_s=chosen.kill_leader_s, refuse_every=chosen.refuse_every
    )


if __name__ == "__main__":
    sys.exit(main())
