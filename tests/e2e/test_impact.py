"""The impact of changes on a real API server: warnings, the gate, accepted plans, and an extender that dies."""

import concurrent.futures
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pytest
from e2e import karmada
from e2e.api import Api, RefusedError, Reply
from e2e.control_plane import ControlPlane
from e2e.manifests import unique
from e2e.processes import Processes, wait_for
from e2e.registration import Hook, registered
from e2e.service import KARMADA_HOOKS, Service
from e2e.serving import Serving, start_extender
from karmada_plane import binding, cluster, new_deployment, policy, selector

pytestmark = pytest.mark.e2e

ACCEPT: Final = "policy.berthmaster.io/accept-plan"
HOOKS: Final = (
    *KARMADA_HOOKS,
    Hook("/impact-propagationpolicy", "policy.karmada.io", "propagationpolicies"),
    Hook("/impact-clusterpropagationpolicy", "policy.karmada.io", "clusterpropagationpolicies"),
)
LIMIT_S: Final = 60.0
WAIT_S: Final = 8.0
"""How long a review waits for the extender; the API server waits 10 s for the review."""
BURST: Final = 500
WRITERS: Final = 8
JSON = dict[str, Any]


@dataclass(frozen=True)
class Shop:
    """Three Deployments on the first of two clusters, and the policy that holds them."""

    namespace: str
    first: str
    second: str
    policy: JSON

    def moved(self) -> JSON:
        return {**self.policy, "spec": {**self.policy["spec"], "placement": on(self.second)}}


def on(name: str) -> JSON:
    return {"clusterAffinity": {"clusterNames": [name]}}


def accepting(policy: JSON, plan: str) -> JSON:
    return {**policy, "metadata": {**policy["metadata"], "annotations": {ACCEPT: plan}}}


def part_of(changed: JSON) -> JSON:
    return {"metadata": {"annotations": changed["metadata"].get("annotations")}, "spec": changed["spec"]}


@pytest.fixture(scope="module")
def shop(control_plane: ControlPlane) -> Iterator[Shop]:
    namespace = control_plane.new_namespace()
    first, second = unique("member"), unique("member")
    holder = policy("web", selector(), namespace=namespace, placement=on(first))
    made = [cluster(first), cluster(second), holder]
    for name in ("a", "b", "c"):
        template = new_deployment(name, 2, namespace=namespace, by=holder)
        made += [template, binding(template, holder, **{first: 2})]
    with karmada.present(control_plane.api, *made):
        yield Shop(namespace, first, second, holder)


@pytest.fixture(scope="module")
def extender(processes: Processes, control_plane: ControlPlane, shop: Shop) -> Iterator[Serving]:  # noqa: ARG001
    running = start_extender(processes, control_plane, "workloads")
    yield running
    running.process.kill()


@pytest.fixture(scope="module")
def webhook(
    control_plane: ControlPlane, processes: Processes, extender: Serving, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """A webhook that asks the extender, and refuses to move more than two workloads."""
    samples = [
        policy("sample", selector(), namespace=control_plane.new_namespace(), placement={}),
        policy("sample", selector(name="none", namespace="none"), namespace="", placement={}),
    ]
    rights = [({"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}, None)]
    with closing(Service(processes, tmp_path_factory.mktemp("webhook"), "companion")) as service:
        replica = service.start(
            f"--impact-url={extender.url}",
            f"--impact-timeout-ms={WAIT_S * 1000:.0f}",  # the machine may be busy, and an answer is needed
            f"--request-timeout-s={WAIT_S + 1.5}",
            "--rule=blast-radius=deny",
            "--blast-radius=moved=2",
            "--blast-radius-events",
            f"--kubeconfig={control_plane.user(unique('webhook'), rights)}",
        )
        with registered(control_plane, HOOKS, service.url, service.authority.certificate, samples):
            yield replica


@pytest.fixture(autouse=True)
def _in_effect(webhook: Serving) -> None:
    """Every test of this module meets the webhook."""


def computed(write: Any) -> Reply:
    """The answer to a write once its impact is computed: a busy machine may take too long for the first ones."""

    def reply() -> Reply | None:
        found: Reply = write()
        assert not [each for each in found.warnings if each.startswith("impact not computed")], found.warnings
        return found

    return wait_for("an impact", reply, LIMIT_S)


def refused(api: Api, changed: JSON) -> RefusedError:
    def refusal() -> RefusedError | None:
        try:
            accepted = api.patch(changed, part_of(changed), dry_run=True)
        except RefusedError as error:
            return error
        raise AssertionError(accepted.warnings)

    return wait_for("a refusal", refusal, LIMIT_S)


def plan_of(refusal: RefusedError) -> str:
    found = re.search(rf"{re.escape(ACCEPT)}: ([0-9a-f]+)", refusal.message)
    return found[1]


def events(api: Api, namespace: str) -> list[str]:
    return [each["reason"] for each in api.list("events.k8s.io/v1", "Event", namespace)]


def test_a_dry_run_shows_the_impact_and_has_no_side_effects(api: Api, shop: Shop):
    refusal = refused(api, shop.moved())
    assert "3 workloads move, at most 2 may" in refusal.message
    assert any(each.startswith("3 of ") and "workloads move, 6 replicas" in each for each in refusal.warnings)
    assert refusal.warnings[-1] == f"plan {plan_of(refusal)}"
    assert all(len(each) <= 120 for each in refusal.warnings)
    assert "BlastRadiusExceeded" not in events(api, shop.namespace)
    assert api.get(shop.policy)["spec"]["placement"] == on(shop.first)


def test_a_change_within_the_limit_is_a_warning(api: Api, shop: Shop):
    one = policy("one", selector(name="a"), namespace=shop.namespace, placement=on(shop.second), priority=5)
    reply = computed(lambda: api.create({**one, "spec": {**one["spec"], "preemption": "Always"}}, dry_run=True))
    assert any(re.match(r"1 of \d+ workloads move, 2 replicas; if preemption is on", each) for each in reply.warnings)
    assert any(f"{shop.namespace}/Deployment/a leaves {shop.first}" in each for each in reply.warnings)


def test_a_refused_change_is_accepted_by_the_id_of_its_plan(api: Api, shop: Shop, webhook: Serving):
    with pytest.raises(RefusedError, match="blast-radius") as first:
        computed(lambda: api.patch(shop.policy, part_of(shop.moved())))
    wait_for("an event", lambda: "BlastRadiusExceeded" in events(api, shop.namespace), LIMIT_S)
    stale = plan_of(first.value)

    # Another replica changes what would happen now.
    bound = {"apiVersion": karmada.BINDINGS, "kind": "ResourceBinding",
             "metadata": {"name": "a-deployment", "namespace": shop.namespace}}  # fmt: skip
    api.patch(bound, {"spec": {"replicas": 3, "clusters": [{"name": shop.first, "replicas": 3}]}})

    def changed() -> str | None:
        current = plan_of(refused(api, accepting(shop.moved(), stale)))
        return current if current != stale else None

    current = wait_for("another plan", changed, LIMIT_S)
    assert (
        f"accepts plan {stale}, but the plan is now {current}" in refused(api, accepting(shop.moved(), stale)).message
    )
    stored = computed(lambda: api.patch(shop.policy, part_of(accepting(shop.moved(), current)))).object
    assert stored["spec"]["placement"] == on(shop.second)
    assert ACCEPT not in stored["metadata"].get("annotations", {})
    wait_for("an event", lambda: "PlanAccepted" in events(api, shop.namespace), LIMIT_S)
    assert 'berthmaster_webhook_blast_radius_total{dry_run="false",result="accepted"} 1.0' in webhook.metrics()


def test_a_dead_extender_fails_no_write_and_delays_none(api: Api, shop: Shop, extender: Serving, webhook: Serving):
    written: list[tuple[float, tuple[str, ...]]] = []

    def write(number: int) -> None:
        each = policy(f"burst-{number}", selector(name=f"none-{number}"), namespace=shop.namespace, placement={})
        begun_s = time.perf_counter()
        reply = api.create(each)
        written.append((time.perf_counter() - begun_s, reply.warnings))
        if number == BURST // 2:
            extender.process.kill()

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(BURST)))
    unknown = [each for _, warnings in written for each in warnings if each.startswith("impact not computed")]
    assert len(written) == BURST
    assert unknown, "the extender died in the middle of the burst"
    slowest_s = max(taken_s for taken_s, _ in written)
    assert slowest_s < WAIT_S, "no review waited for the dead extender"
    text = webhook.metrics()
    assert 'berthmaster_webhook_impacts_total{moved="",result="breaker"}' in text, "most reviews did not ask"
    timeouts = re.search(r'impacts_total\{moved="",result="timeout"\} (\d+)', text)
    asked = re.search(r'impacts_total\{moved="",result="unreachable"\} (\d+)', text)
    assert int(timeouts[1] if timeouts else 0) + int(asked[1] if asked else 0) < BURST // 4
