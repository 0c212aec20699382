"""The gate as real processes: the webhook asks the extender, which watches a control plane over HTTP."""

import json
from contextlib import ExitStack, closing

import pytest
from gated_plane import GatedPlane
from karmada_model.model import Settings
from karmada_model.stage import Stage
from karmada_plane import DIVIDED, binding, cluster, deployment, policy, selector
from kube_over_http import KubeOverHTTP
from servers import running
from waiting import wait_for
from webhook_process import running as running_webhook

WORKLOADS = 1300
"""More than a review decides in its turn, so that reviews need long plans."""
HERE = {**DIVIDED, "clusterAffinity": {"clusterNames": ["here"]}}
THERE = {**DIVIDED, "clusterAffinity": {"clusterNames": ["there"]}}
FIRST = policy("first", selector(), placement=HERE)


def elsewhere(held):
    return {**held, "spec": {**held["spec"], "placement": THERE}}


class Plane:
    """Workloads that one policy holds, and the gate as processes of its own."""

    def __init__(self, folder, stack):
        self.stage = Stage(
            cluster("here", 100_000),
            cluster("there", 100_000),
            FIRST,
            karmada=Settings(),
            only=("garbage", "detector"),
            scheduled=False,
        )
        for number in range(WORKLOADS):
            template = deployment(f"app{number}", 1, by=FIRST)
            self.stage.put(template)
            self.stage.put(binding(template, FIRST, here=1))
        self.stage.settle()
        kube = KubeOverHTTP()
        stack.callback(kube.close)
        kube.api = self.stage.api
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kube.kubeconfig())
        flags = ("--watch", "workloads", "--kubeconfig", kubeconfig, "--log-level", "warning")
        extender = stack.enter_context(running("extender", *flags, log=folder / "extender.log"))
        flags = (f"--impact-url={extender.url}", "--rule=blast-radius=deny", "--request-timeout-s=20")
        webhook = stack.enter_context(running_webhook(folder, *flags))
        self._connection = stack.enter_context(closing(webhook.connection()))
        self.gate = GatedPlane(self.stage, self._ask)

    def _ask(self, path, review):
        self._connection.request("POST", path, json.dumps(review).encode(), {"Content-Type": "application/json"})
        return json.loads(self._connection.getresponse().read())["response"]

    @property
    def holder(self):
        """The policy that holds the workloads."""
        name = self.stage.holder(deployment("app0"))
        return self.stage.get(policy(name))

    def until(self, write, *, allowed=True):
        """Write again until the verdict is the expected one: the extender may not have seen everything yet."""
        found = []

        def check():
            found.append(write())
            return found[-1].allowed is allowed

        wait_for(check, lambda: found[-1])
        return found[-1]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with ExitStack() as stack:
        yield Plane(tmp_path_factory.mktemp("gate"), stack)


NAMES = iter(("second", "third", "fourth"))


@pytest.fixture
def heir(plane):
    """A policy that selects the same workloads as their holder, and would leave them where they are."""
    made = policy(next(NAMES), selector(), placement=HERE)
    plane.until(lambda: plane.gate.write(made))
    plane.stage.settle()
    yield made
    plane.until(lambda: plane.gate.write(made))
    if plane.holder["metadata"]["name"] != made["metadata"]["name"]:
        plane.until(lambda: plane.gate.delete(plane.holder))
        plane.stage.settle()


def test_a_dry_run_before_a_takeover_does_not_vouch_for_the_move_after_it(plane, heir):
    dry_run = plane.until(lambda: plane.gate.write(elsewhere(heir), dry_run=True))
    assert "no workload moves" in dry_run.text
    plane.until(lambda: plane.gate.delete(plane.holder))
    plane.stage.settle()
    verdict = plane.gate.write(elsewhere(heir))
    assert not verdict.allowed, verdict.text
    refused = plane.until(lambda: plane.gate.write(elsewhere(heir), dry_run=True), allowed=False)
    assert "workloads move, at most 50 may" in refused.text


def test_a_dry_run_of_a_deletion_does_not_vouch_for_it_after_the_heir_has_changed(plane, heir):
    dry_run = plane.until(lambda: plane.gate.delete(plane.holder, dry_run=True))
    assert "no workload moves" in dry_run.text
    plane.until(lambda: plane.gate.write(elsewhere(heir)))
    verdict = plane.gate.delete(plane.holder)
    assert not verdict.allowed, verdict.text


def test_a_change_is_judged_after_the_change_before_it_however_soon_it_follows(plane, heir):
    plane.until(lambda: plane.gate.write(elsewhere(heir)))
    verdict = plane.gate.delete(plane.holder)
    assert not verdict.allowed, verdict.text


def test_a_lazy_policy_counts_what_it_moves_later(plane):
    changed = elsewhere(plane.holder)
    lazy = {**changed, "spec": {**changed["spec"], "activationPreference": "Lazy"}}
    refused = plane.until(lambda: plane.gate.write(lazy, dry_run=True), allowed=False)
    assert "workloads move, at most 50 may" in refused.text
    assert not plane.gate.write(lazy).allowed
