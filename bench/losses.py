"""Hold simulations of lost and deleted clusters beside what then happens: ``make bench-loss-property``.

Each fleet is a random control plane in memory: a model of Karmada's controllers, and one scheduler, which is
Berthmaster's or plays karmada-scheduler. Each fleet loses a cluster under each assumption, or deletes it.
"""

import sys
from collections import Counter

import click
from lost_fleet import MODES, LostFleet


@click.command()
@click.option("--fleets", default=200, show_default=True, help="The number of fleets for each mode and scheduler.")
@click.option("--seed", default=1, show_default=True, help="The seed of the first fleet.")
def main(fleets: int, seed: int) -> None:
    """Compare simulations with what happens."""
    cases: Counter[str] = Counter()
    wrong = 0
    for number in range(seed, seed + fleets):
        for mode in MODES:
            for own in (False, True):
                fleet = LostFleet(number, mode, own=own)
                differences = fleet.differences()
                wrong += bool(differences)
                scheduler = "Berthmaster" if own else "Karmada"
                if differences:
                    print(f"fleet {number}, {mode}, {scheduler}:", *differences, sep="\n")
                cases.update({f"{mode}, {scheduler}: {case}": count for case, count in fleet.cases.items()})
    print(*(f"{count:8} {case}" for case, count in sorted(cases.items())), sep="\n")
    print(f"{fleets * len(MODES) * 2} losses: {wrong} were wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
