"""Count the functions and files that one binding passes, and those that ``plan -f`` passes: what a reader follows.

A function counts if it runs, and a file if one of its functions runs. Code that runs at import does not count.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType

from karmada_model.stage import Stage
from karmada_plane import cluster, deployment, policy, selector

from berthmaster_cli.main import main

ROOT = Path(__file__).parent.parent
PRODUCTION = tuple(f"{ROOT}/{name}/" for name in ("berthmaster", "berthmaster_cli", "extender", "webhook", "console"))

ARGUMENTS = [
    "plan", "-o", "json", "-f", f"{ROOT}/examples/plan/nginx.yaml", "--against", f"{ROOT}/examples/karmada",
]  # fmt: skip


def functions_of(run: Callable[[], object]) -> dict[str, list[str]]:
    """Return the functions of production code that run, by their file relative to the root."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, _event: str, _value: object) -> None:
        seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    found: dict[str, list[str]] = {}
    for code in sorted(seen, key=lambda each: (each.co_filename, each.co_firstlineno)):
        if code.co_filename.startswith(PRODUCTION) and code.co_name != "<module>":
            found.setdefault(os.path.relpath(code.co_filename, ROOT), []).append(code.co_qualname)
    return found


def binding_way() -> dict[str, list[str]]:
    """Return the functions that a new binding passes in a scheduler that has scheduled others."""
    templates = [deployment(f"w{number}", 4) for number in range(9)]
    held = policy("p", selector(), schedulerName="berthmaster")
    stage = Stage(cluster("m1"), cluster("m2"), held, *templates[:-1])
    stage.settle()
    scheduler = stage.scheduler
    stage.scheduler = None
    stage.put(templates[-1])
    stage.settle()
    return functions_of(lambda: scheduler is not None and [scheduler.step() for _ in range(3)])


def plan_way() -> dict[str, list[str]]:
    """Return the functions that ``berthmaster plan -f`` passes for the example of a plan."""

    def run() -> None:
        with suppress(SystemExit), redirect_stdout(StringIO()):  # the exit code says that something moves
            main(ARGUMENTS, standalone_mode=False)

    run()  # imports the modules, whose classes and tables run code
    return functions_of(run)


if __name__ == "__main__":
    for name, way in (("a new binding", binding_way()), ("plan -f", plan_way())):
        print(f"{name}: {sum(map(len, way.values()))} functions in {len(way)} files")
        if "--list" in sys.argv:
            print("\n".join(f"  {file}: {', '.join(functions)}" for file, functions in way.items()))
