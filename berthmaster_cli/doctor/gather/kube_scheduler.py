"""Reads the extender's stanza for kube-scheduler, and whether a cluster has the nodes that it names."""

from typing import Any, Final

import msgspec

from berthmaster.kube import requests
from berthmaster.kube.client import ask_if_found
from berthmaster.model.errors import ApiError
from berthmaster_cli.doctor.facts import DeploymentFacts, KubeSchedulerFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient, decode

_CONFIG_MAPS: Final = requests.Collection.of("v1", "configmaps")
_NODES: Final = requests.Collection.of("v1", "nodes")


class _ManagedResource(msgspec.Struct, frozen=True):
    name: str = ""


class _SchedulerExtender(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of ``extenders`` of a ``KubeSchedulerConfiguration``."""

    managed_resources: tuple[_ManagedResource, ...] = ()
    ignorable: bool = False


class _SchedulerConfiguration(msgspec.Struct, frozen=True):
    extenders: tuple[_SchedulerExtender, ...] = ()


def read_kube_scheduler(
    client: DoctorClient, setup: Setup, extender: DeploymentFacts | None
) -> KubeSchedulerFacts | None:
    """Read the stanza that the chart renders for kube-scheduler; None without one."""
    body = ask_if_found(client, requests.get(_CONFIG_MAPS, (setup.namespace, f"{setup.release}-kube-scheduler")))
    if body is None:
        return None
    text = (decode(dict[str, Any], body).get("data") or {}).get("extenders.yaml") or ""
    try:
        configuration = msgspec.yaml.decode(text, type=_SchedulerConfiguration)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiError(0, "", f"its stanza is not readable: {error}") from None
    stanza = configuration.extenders[0] if configuration.extenders else _SchedulerExtender()
    return KubeSchedulerFacts(
        managed=tuple(each.name for each in stanza.managed_resources),
        ignorable=stanza.ignorable,
        own_scheduler=extender.scheduler if extender is not None else "",
        members=extender.option("kube-scheduler-members") if extender is not None else "",
    )


def read_has_nodes(client: DoctorClient, selector: str) -> bool:
    """Return whether a node has the labels of a selector."""
    request = requests.APIRequest(_NODES.path, (("labelSelector", selector), ("limit", "1")))
    return bool(client.read(request).get("items"))
