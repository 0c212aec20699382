"""The life of whole installs: every process that the chart renders, with the rights that the chart gives it."""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from e2e.api import Api, RefusedError
from e2e.control_plane import ControlPlane
from e2e.installed import Installed, labelled
from e2e.karmada import assigned, binding, cluster, divided, install_clusters, install_quotas, join
from e2e.load import Load
from e2e.manifests import JSON, cluster_propagation_policy, deployments, propagation_policy, workload_rebalancer
from e2e.preempting import claim, cleared, deployment, policy, taken
from e2e.processes import Processes, wait_for
from e2e.rights import Right, granted, refused, used

pytestmark = pytest.mark.e2e

LIMIT_S = 60.0
ENOUGH = 30  # requests between two events
TEMPLATE_GROUPS = ("", "apps", "batch", "networking.k8s.io")
_EVENT = Right("events.k8s.io", "events", "create")
_AGAIN = _EVENT._replace(verb="patch")  # the second of a series of the same event
_PATCH_SECRETS = Right("", "secrets", "patch")
UNUSED = {
    "extender": set(),
    "controllers": {_AGAIN, Right("work.karmada.io", "works", "list")},  # nothing moves here
    "certs": {_AGAIN},
    "register": {
        # What is applied for the first time: a PATCH to the audit, and refused without the right to create.
        *(
            Right("admissionregistration.k8s.io", f"{kind}webhookconfigurations", "create")
            for kind in ("mutating", "validating")
        ),
        _PATCH_SECRETS, _EVENT, _AGAIN,  # if it comes before the keepers
    },
}  # fmt: skip
"""Rights that are needed, and that no install uses for certain: by component."""
POLICY = {"placement": {"spreadConstraints": [{"maxGroups": 2}]}}


@pytest.fixture(scope="module")
def other_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster that knows nothing of policies."""
    children = Processes(tmp_path_factory.mktemp("host"))
    try:
        yield ControlPlane(children)
    finally:
        children.stop_all()


@pytest.fixture(params=["single", "karmada"])
def installed(
    request: pytest.FixtureRequest, control_plane: ControlPlane, processes: Processes, tmp_path: Path
) -> Iterator[Installed]:
    karmada = request.param == "karmada"
    host = request.getfixturevalue("other_plane") if karmada else control_plane
    install_clusters(control_plane.api)
    install_quotas(control_plane.api)
    with closing(Installed(request.param, host, control_plane, processes, tmp_path)) as one:
        yield one


@pytest.fixture
def member(api: Api) -> Iterator[str]:
    joined = cluster()
    install_clusters(api)
    install_quotas(api)
    join(api, joined)
    yield joined["metadata"]["name"]
    api.delete(joined)


def test_install_rotations_upgrade_uninstall(installed: Installed, api: Api, namespace: str, member: str):
    others = Counter(left(installed))  # of releases by the same name that other tests had, in other namespaces
    installed.upgrade()
    assert [(name, code) for name, code, _ in installed.jobs.ran] == [("berthmaster-register", 0)], installed.jobs.ran
    wait_for("every pod to be ready", installed.pods.settled, LIMIT_S)
    policies_are_reviewed(api, namespace)
    bindings_are_scheduled_and_rebalanced(api, namespace, member)
    templates_are_taken_over(api, namespace)
    with Load(api, lambda: propagation_policy(namespace, **POLICY)) as load:
        load.more(ENOUGH)
        the_leaf_is_renewed(installed)
        load.more(ENOUGH)
        the_authority_is_replaced(installed)
        load.more(ENOUGH)
        an_upgrade_keeps_the_bundle(installed)
        load.more(ENOUGH)
        several_rotate_at_once(installed)
        load.more(ENOUGH)
        all_certificates_are_lost(installed)
        load.more(ENOUGH)
        rights_are_those_that_are_used(installed, ("extender", "controllers", "certs"))
        assert {"Lease/berthmaster-controllers", "Secret/berthmaster-ca"} <= (Counter(left(installed)) - others).keys()
        if installed.mode == "single":
            a_disabled_webhook_is_not_registered_until_a_rollback(installed)
            load.more(ENOUGH)
        installed.uninstall()
        load.more(ENOUGH)
        rights_are_those_that_are_used(installed, ("register",))
    assert not load.failures, load.report()
    wait_for("the pods to be gone", lambda: not installed.pods.here, LIMIT_S)
    assert not Counter(left(installed)) - others
    assert not any(map(api.exists, installed.registered()))
    assert installed.pods.faults == []
    api.create(propagation_policy(namespace))


def policies_are_reviewed(api: Api, namespace: str) -> None:
    def defaulted() -> bool:
        stored = api.create(propagation_policy(namespace, **POLICY), dry_run=True).object
        return "minGroups" in stored["spec"]["placement"]["spreadConstraints"][0]

    wait_for("defaults", defaulted, LIMIT_S)
    wrong = cluster_propagation_policy(preemption="Always", priority=1)
    del wrong["spec"]["resourceSelectors"][0]["namespace"]

    def denied() -> str | None:
        try:
            api.create(wrong, dry_run=True)
        except RefusedError as refusal:
            return refusal.message
        return None

    assert "preemption-without-namespace" in wait_for("a refusal", denied, LIMIT_S)


def bindings_are_scheduled_and_rebalanced(api: Api, namespace: str, member: str) -> None:
    bound = binding(namespace, divided(("all", [member])))
    name = bound["spec"]["resource"]["name"]
    api.create(bound)
    wait_for("the binding to be scheduled", lambda: assigned(api.get(bound)) == {member: 2}, LIMIT_S)
    wait_for("its status", lambda: "lastScheduledTime" in api.get(bound).get("status", {}), LIMIT_S)
    again = workload_rebalancer(deployments(name=name, namespace=namespace), ttlSecondsAfterFinished=1)
    made = api.create(again).object["metadata"]["creationTimestamp"]
    wait_for("the mark", lambda: api.get(bound)["spec"].get("rescheduleTriggeredAt") == made, LIMIT_S)
    wait_for("the rebalancer to have had its time", lambda: not api.exists(again), LIMIT_S)


def templates_are_taken_over(api: Api, namespace: str) -> None:
    web = deployment(namespace)
    api.create(web)
    weak = api.create(policy(namespace, web, 1, always=False)).object
    claim(api, web, weak)
    strong = api.create(policy(namespace, web, 9)).object
    taken(api, web, strong)
    heir: JSON = api.create(policy(namespace, web, 5)).object
    api.patch(strong, {"spec": {"priority": 3}})
    taken(api, web, heir)
    cleared(api, strong)


def the_leaf_is_renewed(installed: Installed) -> None:
    assert "RenewalRequested" in installed.pods.exec("certs", "certs", "rotate")


def the_authority_is_replaced(installed: Installed) -> None:
    before = installed.bundles()
    assert "RotationRequested" in installed.pods.exec("certs", "certs", "rotate", "--ca")
    # The two configurations change one after the other.
    [both] = wait_for("both to be trusted", lambda: (now := installed.bundles()).isdisjoint(before) and now, LIMIT_S)
    wait_for("the new one alone to be", lambda: not installed.bundles() & {both, *before}, LIMIT_S)


def several_rotate_at_once(installed: Installed) -> None:
    """Six commands and two replicas write the same Secrets and configurations. All ends with one authority."""
    before = installed.bundles()
    words = [("certs", "rotate"), ("certs", "rotate", "--ca")] * 3
    with ThreadPoolExecutor(len(words)) as together:
        list(together.map(lambda each: installed.pods.exec("certs", *each), words))

    def new_alone() -> bool:
        now = [b64decode(each) for each in installed.bundles() - before]
        return len(now) == len(installed.bundles()) == 1 and now[0].count(b"BEGIN CERTIFICATE") == 1

    wait_for("one new authority alone to be trusted", new_alone, LIMIT_S)


def all_certificates_are_lost(installed: Installed) -> None:
    """A tool that replaces objects by their manifests removes the data of the Secrets."""
    [before], api, namespace = installed.bundles(), installed.host.api, installed.release.namespace
    for each in api.list("v1", "Secret", namespace):
        if "certs.berthmaster.io/role" in each["metadata"].get("labels", {}):
            whole = {"apiVersion": "v1", "kind": "Secret", **each}
            metadata = {key: value for key, value in whole["metadata"].items() if key != "resourceVersion"}
            api.replace({**whole, "metadata": metadata, "data": {}})
    [both] = wait_for("both to be trusted", lambda: (now := installed.bundles()).isdisjoint({before}) and now, LIMIT_S)
    assert both != before
    wait_for("the new one alone to be", lambda: not installed.bundles() & {both, before}, LIMIT_S)


def an_upgrade_keeps_the_bundle(installed: Installed) -> None:
    before, pods = installed.bundles(), installed.pods.of("webhook")
    installed.upgrade(webhook={"timeoutSeconds": 10, "requestTimeoutSeconds": 7})
    stored = [installed.target.api.get(each) for each in installed.registered()]
    assert {entry["timeoutSeconds"] for each in stored for entry in each["webhooks"]} == {10}
    assert installed.bundles() == before
    assert len(before) == 1
    wait_for("every pod to be replaced", installed.pods.settled, LIMIT_S)
    assert not {*pods} & {*installed.pods.of("webhook")}


def a_disabled_webhook_is_not_registered_until_a_rollback(installed: Installed) -> None:
    before, values = installed.bundles(), installed.values
    installed.upgrade(webhook={"enabled": False})
    assert installed.jobs.ran[-1][:2] == ("berthmaster-unwanted", 0), installed.jobs.ran
    assert not any(map(installed.target.api.exists, installed.registered()))
    installed.rollback()
    installed.values = values
    assert installed.bundles() == before


def rights_are_those_that_are_used(installed: Installed, components: Sequence[str]) -> None:
    for component in components:
        allowed, done = set(), set()
        for plane, user, objects in installed.identities(component):
            assert refused(plane, user) == [], user
            allowed |= granted(objects, user.rpartition(":")[2])
            done |= used(plane, user)
        assert {each for each in allowed - done if not excused(component, each, done)} == set(), component


def excused(component: str, right: Right, done: set[Right]) -> bool:
    if right in UNUSED[component]:
        return True
    if component == "controllers" and right.group in TEMPLATE_GROUPS:
        return right.resource != "deployments"  # the one kind of template that is taken over here
    return right._replace(resource=right.resource.removeprefix("cluster")) in done  # the same code serves both scopes


def left(installed: Installed) -> list[str]:
    kinds = {(each["apiVersion"], each["kind"]) for each in installed.rendered()}
    kinds |= {("v1", "Secret"), ("coordination.k8s.io/v1", "Lease")}
    return [each for plane in {installed.host, installed.target} for each in labelled(plane.api, kinds)]
