"""Hold plans and simulations beside what then happens: ``make bench-plan-property ARGS="--edits 2000 --seed 7"``.

Each fleet is a random control plane in memory: a model of Karmada's controllers with Berthmaster's binding scheduler.
In every second fleet the scheduler deducts nothing, as Karmada's. Each edit of policies is planned, simulated and
explained before it happens. A difference in claims, moves, groups, deleted copies or failures is printed, and the
command fails.
"""

import logging
import sys
import time

import click
from edited_fleet import EditedFleet

_EDITS_OF_A_FLEET = 20
_MAX_SHOWN = 5


@click.command()
@click.option("--edits", default=10_000, show_default=True, help="The number of edits in all.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first fleet.")
def main(edits: int, seed: int) -> None:
    """Compare plans with what happens."""
    logging.disable(logging.WARNING)  # extenders that lose their watches when they end
    start, done, wrong = time.perf_counter(), 0, 0
    while done < edits:
        fleet = EditedFleet(seed, deducts=seed % 2 == 0)
        for number in range(min(_EDITS_OF_A_FLEET, edits - done)):
            done += 1
            differences = fleet.edit()
            wrong += bool(differences)
            if differences and wrong <= _MAX_SHOWN:
                print(f"fleet {seed}, edit {number}:", *differences, sep="\n")
            if differences:
                break
        seed += 1
    taken_s = time.perf_counter() - start
    print(f"{done} edits in {taken_s:.0f} s: {done - wrong} plans were right, {wrong} were wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
