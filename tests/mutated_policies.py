"""Policies with one to three random mistakes, made from complete ones. The schemas play no part in it."""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from tables import data

_DATA: Final = data("complete_policies")
COMPLETE: Final = tuple(
    {"apiVersion": api_version, "kind": kind, "metadata": deepcopy(_DATA["metadata"]), "spec": deepcopy(_DATA[spec])}
    for api_version, kind, spec in (
        ("policy.karmada.io/v1alpha1", "PropagationPolicy", "karmada"),
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", "karmada"),
        ("core.kubeadmiral.io/v1alpha1", "PropagationPolicy", "kubeadmiral"),
        ("core.kubeadmiral.io/v1alpha1", "ClusterPropagationPolicy", "kubeadmiral"),
        ("core.kubeadmiral.io/v1alpha1", "FederatedCluster", "member"),
        ("apps.karmada.io/v1alpha1", "WorkloadRebalancer", "rebalancer"),
    )
)
_SCALARS: Final = (
    None, True, False, -1, 0, 1, 2, 31, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, 10**30, 1.0, 1.5, "", "a",
    "A", "Web", "a b", "web-", "a/b", "EXAMPLE.io/a", "a" * 32, "é" * 32, "a" * 33, "a" * 63, "a" * 64, "a" * 254,
    "90", "2 weeks", "-5s", "1h30m", "Always", "always", "Lazy", "Never", "Gracefully", "Binpack", "zone", "2026-01-01",
    "2026-02-30T00:00:00Z", "2026-01-01T00:00:00.5+02:00", [], {}, [None], [{}], {"a": None}, {"a": 1}, ["a"], [1],
)  # fmt: skip


def mutated_policies(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield objects with one to three random changes, most of them mistakes."""
    chance = random.Random(seed)
    for index in range(count):
        made = deepcopy(COMPLETE[index % len(COMPLETE)])
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _change(made, chance)
        yield made


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else ())
    for key, each in entries:
        yield value, key
        yield from _places(each)


def _change(made: dict[str, Any], chance: random.Random) -> None:
    places = [(holder, key) for holder, key in _places(made) if key not in ("apiVersion", "kind") or holder is not made]
    if not places:
        return
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice((f"{key}s", str(key)[:-1], str(key).upper(), "rackAwareness"))] = holder.pop(key)
        case 2 if isinstance(holder, dict):
            holder["other"] = chance.choice(_SCALARS)
        case _:
            holder[key] = deepcopy(chance.choice(_SCALARS))
