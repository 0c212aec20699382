"""What holds for every pod that the chart ever makes: a table of promises, each kept by all of them."""

from collections.abc import Callable
from typing import Any

import pytest
from charts.cases import CASES

from charts import helm

Spec = dict[str, Any]
ALLOWED_VOLUMES = {"projected", "persistentVolumeClaim", "emptyDir", "secret", "configMap"}


def containers(spec: Spec) -> list[Spec]:
    return [*spec["containers"], *spec.get("initContainers", [])]


def each(check: Callable[[Spec], bool]) -> Callable[[Spec], bool]:
    return lambda spec: all(check(container) for container in containers(spec))


def mounts(spec: Spec, *kinds: str) -> list[Spec]:
    volumes = {volume["name"] for volume in spec["volumes"] if volume.keys() & set(kinds)}
    return [mount for container in containers(spec) for mount in container["volumeMounts"] if mount["name"] in volumes]


PROMISES: dict[str, Callable[[Spec], bool]] = {
    "runs as an unprivileged user": lambda spec: (
        spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] >= 10_000
    ),
    "has the runtime's seccomp profile": lambda spec: (
        spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    ),
    "shares nothing with its node": lambda spec: not spec.keys() & {"hostNetwork", "hostPID", "hostIPC", "hostUsers"},
    "mounts nothing of its node": lambda spec: all(
        volume.keys() - {"name"} <= ALLOWED_VOLUMES
        and all(source.keys() == {"secret"} for source in volume.get("projected", {}).get("sources", ()))
        for volume in spec["volumes"]
    ),
    "has no environment of other services": lambda spec: spec["enableServiceLinks"] is False,
    "says whether it has a token": lambda spec: isinstance(spec["automountServiceAccountToken"], bool),
    "cannot gain privileges": each(lambda one: one["securityContext"]["allowPrivilegeEscalation"] is False),
    "has no capabilities": each(lambda one: one["securityContext"]["capabilities"] == {"drop": ["ALL"]}),
    "cannot write to its image": each(lambda one: one["securityContext"]["readOnlyRootFilesystem"] is True),
    "has a bounded place to write to": lambda spec: (
        [mount["mountPath"] for mount in mounts(spec, "emptyDir")] == ["/tmp"]  # noqa: S108 - the pod's own
        and all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)
    ),
    "only reads what is mounted": lambda spec: all(
        mount["readOnly"] for mount in mounts(spec, "secret", "projected", "configMap")
    ),
    "keeps secrets from others in the container": lambda spec: all(
        volume[kind]["defaultMode"] == 0o440
        for volume in spec["volumes"]
        for kind in ("secret", "projected")
        if kind in volume
    ),
    "asks for CPU and memory": each(lambda one: {"cpu", "memory"} <= one["resources"]["requests"].keys()),
    "has a bound of memory": each(lambda one: "memory" in one["resources"]["limits"]),
    "uses every volume": lambda spec: (
        {volume["name"] for volume in spec["volumes"]}
        == {mount["name"] for container in containers(spec) for mount in container["volumeMounts"]}
    ),
    "is of one image": each(lambda one: one["image"].rpartition(":")[0].split("@")[0].endswith("berthmaster")),
    "has its command from the image": each(lambda one: "command" not in one),
    "has no secrets in its arguments or environment": each(
        lambda one: "envFrom" not in one and not any("valueFrom" in variable for variable in one.get("env", []))
    ),
}


BY_CONFIGURATION = {
    "runs as an unprivileged user": "openshift",
    "shares nothing with its node": "host-network",
}
"""The cases whose values give up a promise."""


@pytest.mark.parametrize("promise", PROMISES)
def test_every_pod(promise):
    kept = PROMISES[promise]
    broken = [
        (case, name)
        for case, values in CASES.items()
        if BY_CONFIGURATION.get(promise) != case
        for name, template in helm.pods(helm.render(values))
        if not kept(template["spec"])
    ]
    assert not broken


def deployments():
    for case, values in CASES.items():
        for deployment in helm.of_kind(helm.render(values), "Deployment"):
            [container] = deployment["spec"]["template"]["spec"]["containers"]
            yield case, deployment, container


def argument(container, flag):
    [value] = [text.partition("=")[2] for text in container["args"] if text.startswith(f"--{flag}=")]
    return value


def test_probes_and_ports_are_where_the_process_listens():
    for case, deployment, container in deployments():
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        bound = {"probes": "probe-bind"} | ({"https": "bind"} if "https" in ports else {})
        assert ports == {name: int(argument(container, flag).rpartition(":")[2]) for name, flag in bound.items()}
        asked = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
        assert {get["port"] for get in asked.values()} == {"probes"}, case
        assert [get["path"] for get in asked.values()] == ["/livez", "/livez", "/readyz"], deployment["metadata"][
            "name"
        ]


def test_a_server_has_the_time_that_it_takes_to_stop():
    for _, deployment, container in deployments():
        if "https" in {port["name"] for port in container["ports"]}:
            spec = deployment["spec"]["template"]["spec"]
            taken = float(argument(container, "drain-s")) + float(argument(container, "grace-s"))
            assert spec["terminationGracePeriodSeconds"] > taken
            on_node = spec.get("hostNetwork", False)
            assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == (1 if on_node else 0)


EVERY_SERVER = {**CASES["console"], "pods": {"hostNetwork": True}}


def test_one_node_can_run_every_component_on_its_own_network():
    deployments = helm.of_kind(helm.render(EVERY_SERVER), "Deployment")
    containers = [each["spec"]["template"]["spec"]["containers"][0] for each in deployments]
    ports = [port["containerPort"] for each in containers for port in each["ports"]]
    assert len(deployments) == 5
    assert len(ports) == len(set(ports)), ports


def test_an_upgrade_on_the_network_of_nodes_needs_no_free_node():
    """Two pods cannot have the same port of a node, and there may be as many replicas as nodes."""
    strategies = [each["spec"]["strategy"] for each in helm.of_kind(helm.render(EVERY_SERVER), "Deployment")]
    assert [each["rollingUpdate"] for each in strategies] == [{"maxUnavailable": 1, "maxSurge": 0}] * 5


def test_ports_are_values():
    values = {**CASES["console"], "webhook": {"port": 10443, "probePort": 10080}, "controllers": {"probePort": 10081}}
    found = {
        each["metadata"]["name"].removeprefix("berthmaster-"): [
            port["containerPort"] for port in each["spec"]["template"]["spec"]["containers"][0]["ports"]
        ]
        for each in helm.of_kind(helm.render(values), "Deployment")
    }
    assert found["webhook"] == [10443, 10080]
    assert found["controllers"] == [10081]
    assert found["certs"] == [9080]


def test_a_pod_that_is_not_ready_never_keeps_a_node_from_its_drain(objects):
    for each in helm.of_kind(objects, "PodDisruptionBudget"):
        assert each["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_mounted_file_stands_where_the_arguments_say():
    """Every path below /etc/berthmaster in the arguments comes from a volume with named keys."""
    for case, values in CASES.items():
        for name, template in helm.pods(helm.render(values)):
            spec = template["spec"]
            [container] = spec["containers"]
            folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            options = [*container["args"], *(f"{one['name']}={one['value']}" for one in container.get("env", []))]
            given = {text.partition("=")[2] for text in options if "=/etc/berthmaster/" in text}
            brought = set()
            for volume in spec["volumes"]:
                sources = [volume, *volume.get("projected", {}).get("sources", [])]
                items = [item for source in sources for item in source.get("secret", {}).get("items", [])]
                brought |= {f"{folders[volume['name']]}/{item['path']}" for item in items}
                names = {
                    "registration": ["registration.yaml"], "estimator": ["ca.crt", "tls.crt", "tls.key"],
                    "moves": ["moves.yaml"], "prices": ["prices.yaml"],
                }  # fmt: skip
                if volume["name"] in names:  # all keys of it
                    brought |= {f"{folders[volume['name']]}/{each}" for each in names[volume["name"]]}
            assert given == brought, (case, name)


@pytest.mark.parametrize(
    ("case", "tokens"),
    [
        ("default", {"certs", "register", "unregister", "cleanup"}),
        ("extender", {"certs", "register", "unregister", "cleanup"}),
        ("single", {"certs", "register", "unregister", "cleanup", "controllers"}),
        ("single-with-everything", {"certs", "register", "unregister", "cleanup", "controllers", "extender"}),
        ("extender-only", {"certs", "unwanted", "cleanup"}),
    ],
)
def test_only_components_that_call_the_host_mount_its_token(case, tokens):
    given = {
        name.removeprefix("Deployment/berthmaster-").removeprefix("Job/berthmaster-")
        for name, template in helm.pods(helm.render(CASES[case]))
        if template["spec"]["automountServiceAccountToken"]
    }
    assert given == tokens


def test_replicas_keep_apart():
    [webhook] = [
        each for case, each, _ in deployments() if case == "placed" and each["metadata"]["name"].endswith("webhook")
    ]
    spec = webhook["spec"]["template"]["spec"]
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == webhook["spec"]["selector"]["matchLabels"]


def test_selector_labels_never_change():
    """A Deployment's selector cannot be changed: an upgrade would fail."""
    for case, deployment, _ in deployments():
        assert set(deployment["spec"]["selector"]["matchLabels"]) == {
            "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component",
        }, case  # fmt: skip
