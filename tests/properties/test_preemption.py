"""Preemption ends, whatever there is, in whatever order it is heard of, and beside another controller that preempts."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from preempting import READER, WEB, Stage, policy, template

from berthmaster.kube.requests import APIRequest
from berthmaster.model.claims import Rank, Resource, claim_patch, holder, may_preempt, named_resources, rank
from berthmaster.model.decode import convert
from berthmaster.model.errors import ApiError
from berthmaster.model.meta import ObjectMeta
from berthmaster.model.policy import Policy, PolicyReference

RESOURCES = (WEB, READER)
QUIET_ROUNDS = 3
MAX_ROUNDS = 100
GONE = {"PropagationPolicy": 2**31, "ClusterPropagationPolicy": -(2**31) - 1}
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
        st.tuples(st.just("hear")),
        st.tuples(st.just("work")),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)
START = st.lists(POLICIES, min_size=3, max_size=6), st.lists(st.integers(0, 9), min_size=2, max_size=2)


@dataclass
class Scene:
    """A stage on which anything may happen, and somebody who watches the rules being kept.

    Attributes:
        stage: the controller and its API server.
        random: draws what is not said: orders, and what the other controller does.
        unheard: what was written and not heard of yet.
        hands: from whom to whom resources went, since it was emptied last.
    """

    stage: Stage
    random: Any
    unheard: list[Any] = field(default_factory=list)
    hands: list[tuple[str, PolicyReference, PolicyReference]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._send = self.stage.api.send
        self.stage.api.send = self.referee  # type: ignore[method-assign]

    def policies(self) -> dict[PolicyReference, Policy]:
        """The policies as they are stored."""
        found = (convert(Policy, each) for each in self.stage.policies())
        return {each.reference: each for each in found}

    def rank_of(self, reference: PolicyReference) -> Rank:
        """The rank of a stored policy. Below all is a cluster-wide one that is gone; above all another that is."""
        found = self.policies().get(reference)
        return rank(found) if found is not None else Rank(reference.kind == "PropagationPolicy", GONE[reference.kind])

    def holder(self, number: int) -> PolicyReference | None:
        """Who has a resource."""
        return holder(convert(ObjectMeta, self.stage.get(template(of=RESOURCES[number]))["metadata"]))

    def take(self, number: int, by: Policy) -> None:
        """Somebody else writes a claim, as Karmada's detector does."""
        stored = self.stage.get(template(of=RESOURCES[number]))
        change = claim_patch(convert(ObjectMeta, stored["metadata"]), by)
        for part, entries in change.items():
            merged = {**stored["metadata"].get(part, {}), **entries}
            stored["metadata"][part] = {key: value for key, value in merged.items() if value is not None}
        self.stage.put(stored)
        self.unheard.append(KEYS[number])

    def interfere(self, request: APIRequest) -> None:
        """Just before a write Karmada's own controller may let a policy of its choice preempt."""
        number = self.claimed_by(request)
        if number is None or self.random.random() < 0.6:
            return
        if self.random.random() < 0.2:
            raise ApiError(500, "", "chaos")
        loser = self.holder(number)
        held = self.policies().get(loser) if loser is not None else None
        takers = [each for each in self.policies().values() if KEYS[number] in named_resources(each)]
        takers = [each for each in takers if held is not None and may_preempt(each, held)]
        if takers and loser is not None:
            taker = self.random.choice(takers)
            self.take(number, taker)
            self.hands.append((KEYS[number].name, loser, taker.reference))

    def referee(self, request: APIRequest) -> Any:
        """Each of our writes to a resource raises the rank of who has it."""
        number = self.claimed_by(request)
        if number is None:
            return self._send(request)
        self.interfere(request)
        before = self.holder(number)
        answer = self._send(request)
        after = self.holder(number)
        assert before is not None, "what is nobody's is left alone"
        assert after is not None
        assert self.rank_of(after) > self.rank_of(before)
        self.hands.append((KEYS[number].name, before, after))
        return answer

    @staticmethod
    def claimed_by(request: APIRequest) -> int | None:
        """The number of the resource that a request is to change."""
        if request.method != "PATCH":
            return None
        return next((n for n, key in enumerate(KEYS) if request.path.endswith(f"/{key.name}")), None)

    def hear(self) -> None:
        """Let the controller hear of everything, in any order."""
        self.random.shuffle(self.unheard)
        for each in self.unheard:
            self._hear(each)
        self.unheard.clear()

    def _hear(self, what: Any) -> None:
        if isinstance(what, Resource):
            self.stage.look(what)
            return
        if (stored := self.stage.get(what)) is None:
            self.stage.forget(what)
        else:
            self.stage.hear(stored)

    def shuffle(self) -> None:
        """What waits for work waits in another order."""
        waiting = list(self.stage.queue._ready)
        self.random.shuffle(waiting)
        self.stage.queue._ready.clear()
        self.stage.queue._ready.extend(waiting)

    def happen(self, event: tuple[Any, ...]) -> None:
        """Something happens."""
        match event:
            case ("write a policy", manifest):
                self.stage.put(manifest, heard=False)
                self.unheard.append(manifest)
            case ("remove a policy", number):
                if stored := self.stage.policies():
                    gone = stored[number % len(stored)]
                    self.stage.remove(gone, heard=False)
                    self.unheard.append(gone)
            case ("claim", number, by):
                policies = list(self.policies().values())
                if policies:
                    self.take(number, policies[by % len(policies)])
            case ("hear",):
                self.hear()
            case ("work",):
                self.shuffle()
                self.stage.work()
            case ("restart",):
                self.restart()

    def restart(self) -> None:
        """Another process goes on: it lists everything, and hears of it in any order."""
        self.stage = Stage(api=self.stage.api)
        stored = self.stage.policies()
        self.random.shuffle(stored)
        for each in stored:
            self.stage.hear(each)
        self.unheard.clear()


@settings(max_examples=250)
@given(*START, EVENTS, st.randoms(use_true_random=False))
def test_it_converges_and_nothing_goes_back_and_forth(policies, claims, events, random):
    scene = Scene(Stage(*policies, *(template(of=each) for each in RESOURCES)), random)
    for event in (*(("claim", *each) for each in enumerate(claims)), *events):
        scene.happen(event)
    scene.hands.clear()
    scene.hear()
    quiet = 0
    for _ in range(MAX_ROUNDS):
        before = len(scene.hands)
        scene.shuffle()
        results = scene.stage.later()
        scene.hear()
        quiet = quiet + 1 if len(scene.hands) == before and {*results} <= {"success", "requeued"} else 0
        if quiet == QUIET_ROUNDS:
            break
    assert quiet == QUIET_ROUNDS, "it does not come to rest"

    pairs = [(name, frozenset(pair)) for name, *pair in scene.hands]
    assert len(pairs) == len(set(pairs)), "a resource went back and forth"
    policies = scene.policies()
    for number, key in enumerate(KEYS):
        loser = scene.holder(number)
        if loser is None or loser not in policies:
            continue
        wanting = [each for each in policies.values() if key in named_resources(each) and each.metadata.labels]
        assert not [each for each in wanting if may_preempt(each, policies[loser])], f"{loser} is outranked"
