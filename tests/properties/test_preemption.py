"""Preemption converges for any objects, any order of observation, and beside another preempting controller.

PREEMPTION_EXAMPLES is the number of examples.
"""

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from preempting import READER, WEB, Stage, policy, template

from berthmaster.kube.requests import APIRequest
from berthmaster.model.binding import holder
from berthmaster.model.claims import claim_patch
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference
from berthmaster.model.policy_preemption import Resource, may_preempt, named_resources, rank

RESOURCES = (WEB, READER)
EXAMPLES = int(os.environ.get("PREEMPTION_EXAMPLES", "60"))
QUIET_ROUNDS = 3
MAX_ROUNDS = 100
MISSING_RANK = {"PropagationPolicy": 2**31, "ClusterPropagationPolicy": -(2**31) - 1}
KEYS = tuple(
    Resource(each["apiVersion"], each["kind"], "" if each is READER else "default", each["name"]) for each in RESOURCES
)

POLICIES = st.builds(
    lambda name, priority, always, wide, chosen, identity: policy(
        f"{name}-c" if wide else name,
        priority,
        always=always,
        cluster_scoped=wide,
        names=[
            {**RESOURCES[each], **({"namespace": "default"} if wide and RESOURCES[each] is not READER else {})}
            for each in chosen
        ],
        permanent_id=identity,
    ),
    st.sampled_from("abc"),
    st.sampled_from([None, -1, 0, 1, 2]),
    st.sampled_from([True, True, False]),
    st.booleans(),
    st.sets(st.sampled_from(range(len(RESOURCES))), min_size=1),
    st.sampled_from([None, None, None, ""]),
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("write a policy"), POLICIES),
        st.tuples(st.just("remove a policy"), st.integers(0, 9)),
        st.tuples(st.just("claim"), st.integers(0, len(RESOURCES) - 1), st.integers(0, 9)),
        st.tuples(st.just("observe")),
        st.tuples(st.just("work")),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)
START = st.lists(POLICIES, min_size=3, max_size=6), st.lists(st.integers(0, 9), min_size=2, max_size=2)


@dataclass
class Scene:
    """A stage with arbitrary events, and a check of every write.

    Attributes:
        stage: the controller and its API server.
        random: draws orders, and the actions of the other controller.
        unobserved: objects that were written and not yet observed.
        takeovers: resource, previous and new holder of each takeover since the list was cleared.
    """

    stage: Stage
    random: Any
    unobserved: list[Any] = field(default_factory=list)
    takeovers: list[tuple[str, PolicyReference, PolicyReference]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._send = self.stage.api.send
        self.stage.api.send = self.checked_send  # type: ignore[method-assign]

    def policies(self) -> dict[PolicyReference, Policy]:
        found = (convert(Policy, each) for each in self.stage.policies())
        return {each.reference: each for each in found}

    def rank_of(self, reference: PolicyReference) -> tuple[bool, int]:
        """Return the rank of a policy. A missing policy ranks lowest if cluster-scoped, else highest."""
        found = self.policies().get(reference)
        return (
            rank(found) if found is not None else (reference.kind == "PropagationPolicy", MISSING_RANK[reference.kind])
        )

    def holder(self, number: int) -> PolicyReference | None:
        return holder(convert(ObjectMeta, self.stage.get(template(of=RESOURCES[number]))["metadata"]))

    def take(self, number: int, by: Policy) -> None:
        """Write a claim as Karmada's detector does."""
        stored = self.stage.get(template(of=RESOURCES[number]))
        change = claim_patch(convert(ObjectMeta, stored["metadata"]), by)
        for part, entries in change.items():
            merged = {**stored["metadata"].get(part, {}), **entries}
            stored["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        self.stage.put(stored)
        self.unobserved.append(KEYS[number])

    def interfere(self, request: APIRequest) -> None:
        """Let Karmada's controller preempt with a random policy right before a write."""
        number = self.claimed_by(request)
        if number is None or self.random.random() < 0.6:
            return
        if self.random.random() < 0.2:
            raise ApiError(500, "", "chaos")
        loser = self.holder(number)
        held = self.policies().get(loser) if loser is not None else None
        preemptors = [each for each in self.policies().values() if KEYS[number] in named_resources(each)]
        preemptors = [each for each in preemptors if held is not None and may_preempt(each, held)]
        if preemptors and loser is not None:
            preemptor = self.random.choice(preemptors)
            self.take(number, preemptor)
            self.takeovers.append((KEYS[number].name, loser, preemptor.reference))

    def checked_send(self, request: APIRequest) -> Any:
        """Check that each of our writes to a resource raises the rank of its holder."""
        number = self.claimed_by(request)
        if number is None:
            return self._send(request)
        self.interfere(request)
        before = self.holder(number)
        answer = self._send(request)
        after = self.holder(number)
        assert before is not None, "an unclaimed resource is not taken over"
        assert after is not None
        assert self.rank_of(after) > self.rank_of(before)
        self.takeovers.append((KEYS[number].name, before, after))
        return answer

    @staticmethod
    def claimed_by(request: APIRequest) -> int | None:
        """Return the number of the resource that a request changes."""
        if request.method != "PATCH":
            return None
        return next((n for n, key in enumerate(KEYS) if request.path.endswith(f"/{key.name}")), None)

    def observe(self) -> None:
        """Let the controller observe everything in random order."""
        self.random.shuffle(self.unobserved)
        for each in self.unobserved:
            self._observe(each)
        self.unobserved.clear()

    def _observe(self, what: Any) -> None:
        if isinstance(what, Resource):
            self.stage.enqueue(what)
            return
        if (stored := self.stage.get(what)) is None:
            self.stage.forget(what)
        else:
            self.stage.observe(stored)

    def shuffle(self) -> None:
        waiting = self.stage.clear_queue()
        self.random.shuffle(waiting)
        self.stage.enqueue(*waiting)

    def happen(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("write a policy", manifest):
                self.stage.put(manifest, observed=False)
                self.unobserved.append(manifest)
            case ("remove a policy", number):
                if stored := self.stage.policies():
                    gone = stored[number % len(stored)]
                    self.stage.remove(gone, observed=False)
                    self.unobserved.append(gone)
            case ("claim", number, by):
                policies = list(self.policies().values())
                if policies:
                    self.take(number, policies[by % len(policies)])
            case ("observe",):
                self.observe()
            case ("work",):
                self.shuffle()
                self.stage.work()
            case ("restart",):
                self.restart()

    def restart(self) -> None:
        """Replace the controller by a new process that observes everything in random order."""
        self.stage = Stage(api=self.stage.api)
        stored = self.stage.policies()
        self.random.shuffle(stored)
        for each in stored:
            self.stage.observe(each)
        self.unobserved.clear()


@settings(max_examples=EXAMPLES)
@given(*START, EVENTS, st.randoms(use_true_random=False))
def test_preemption_converges_and_no_resource_goes_back(policies, claims, events, random):
    scene = Scene(Stage(*policies, *(template(of=each) for each in RESOURCES)), random)
    for event in (*(("claim", *each) for each in enumerate(claims)), *events):
        scene.happen(event)
    scene.takeovers.clear()
    scene.observe()
    quiet = 0
    for _ in range(MAX_ROUNDS):
        before = len(scene.takeovers)
        scene.shuffle()
        results = scene.stage.later()
        scene.observe()
        quiet = quiet + 1 if len(scene.takeovers) == before and {*results} <= {"success", "requeued"} else 0
        if quiet == QUIET_ROUNDS:
            break
    assert quiet == QUIET_ROUNDS, "it does not converge"

    pairs = [(name, frozenset(pair)) for name, *pair in scene.takeovers]
    assert len(pairs) == len(set(pairs)), "a resource went back and forth"
    policies = scene.policies()
    for number, key in enumerate(KEYS):
        loser = scene.holder(number)
        if loser is None or loser not in policies:
            continue
        wanting = [each for each in policies.values() if key in named_resources(each) and each.metadata.labels]
        assert not [each for each in wanting if may_preempt(each, policies[loser])], f"{loser} is outranked"
