"""Lists the Deployments of Karmada and of the release."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from berthmaster.kube import requests
from berthmaster_cli.doctor.facts import DeploymentFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient

DEPLOYMENTS: Final = requests.Collection.of("apps/v1", "deployments")
_KARMADA: Final = frozenset({"karmada-scheduler", "karmada-controller-manager"})
_OURS: Final = frozenset({"webhook", "controllers", "extender", "console"})
_MAX_DEPLOYMENTS: Final = 500


def read_deployments(client: DoctorClient, setup: Setup) -> list[DeploymentFacts]:
    """List the Deployments of Karmada and of the release."""
    found: dict[tuple[str, str], DeploymentFacts] = {}
    for namespace in dict.fromkeys((setup.karmada_namespace, setup.namespace)):
        request = requests.APIRequest(DEPLOYMENTS.within(namespace), (("limit", str(_MAX_DEPLOYMENTS)),))
        for item in client.read(request).get("items") or []:
            for deployment in _deployments(item):
                found[namespace, f"{deployment.name}/{deployment.component}"] = deployment
    return list(found.values())


def _deployments(item: Mapping[str, Any]) -> Iterator[DeploymentFacts]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    for container in _pod_spec(spec).get("containers") or []:
        arguments = tuple(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        component = _component(arguments)
        if component:
            yield DeploymentFacts(
                name=str((item.get("metadata") or {}).get("name")),
                component=component,
                arguments=arguments,
                wanted=int(spec.get("replicas", 1)),
                ready=int(status.get("readyReplicas") or 0),
                scheduler=str(_pod_spec(spec).get("schedulerName") or ""),
            )


def _pod_spec(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    return (deployment.get("template") or {}).get("spec") or {}


def _component(arguments: tuple[str, ...]) -> str:
    """Return the component that a container runs, by its program. Our image needs a subcommand only."""
    words = [PurePosixPath(each).name for each in arguments[:2]]
    theirs = next((each for each in words if each in _KARMADA), "")
    own = next((each for each in words if each != "berthmaster"), "")
    return theirs or (own if own in _OURS else "")
