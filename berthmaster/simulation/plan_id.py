"""The id of a plan: a hash of the change and of its effect."""

import hashlib
from typing import Any, Final

import msgspec

from berthmaster.simulation.change_set import ChangeSet
from berthmaster.simulation.plan_answer import Plan

_FORMAT: Final = 1
"""Raised when the definition changes, so that ids of different definitions differ."""
_DIGITS: Final = 16


def plan_id(changes: ChangeSet, answer: Plan) -> str:
    """Return the id of a plan: a hash of the change and of its effect.

    The change enters with everything that affects decisions, but without the rest of its metadata. The effect is: which
    policy holds what before and after, from where to where each workload moves, which copies are deleted, which
    workloads cannot be scheduled, and which clusters are overcommitted. Amounts, messages, the rest of the world, and
    workloads that do not move do not enter. ``docs/plan.md`` has the table. ``answer``: the plan. Its own id does not
    count.
    """
    content = [_FORMAT, changes.digest_input(), _effect(answer)]
    encoded = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:_DIGITS]


def _effect(answer: Plan) -> dict[str, Any]:
    moves = [
        [each.resource, each.policy_before, each.policy, each.group_before, each.group, each.before, each.after,
         each.deleted, each.preserved, each.evicting, each.removed]
        for each in answer.moves
    ]  # fmt: skip
    policies = [
        [each.policy, each.action, each.gains, each.takes, each.loses, each.unclaimed] for each in answer.policies
    ]
    return {
        "moves": sorted(moves, key=lambda each: str(each[0])),
        "policies": sorted(policies, key=lambda each: str(each[0])),
        "unplaced": sorted([each.resource, each.nowhere, each.by_change] for each in answer.unplaced),
        "overcommitted": sorted([each.cluster, each.overcommitted] for each in answer.clusters if each.overcommitted),
        "complete": answer.complete,
    }
