"""What the demo asks the webhook."""

import base64
import json
from typing import Any

from rich.console import Console

from berthmaster_cli.demo.service import Service

_POLICY: dict[str, Any] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
    },
}


def show_webhook(console: Console, service: Service) -> None:
    """A policy that is completed, one that is refused, and a drop of priority that is recorded."""
    console.print("\n[bold]A policy without defaults is completed:[/]")
    _show_patch(console, service.ask("POST", "/mutate-propagationpolicy", _review("CREATE", _POLICY)))

    wrong = _changed(
        preemption="Always",
        resourceSelectors=[{"apiVersion": "apps/v1", "kind": "Deployment"}],
        placement={
            "clusterAffinity": {"clusterNames": ["member1"]},
            "clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}],
        },
    )
    console.print("\n[bold]One that contradicts itself is refused, with every field at fault:[/]")
    response = service.ask("POST", "/validate-propagationpolicy", _review("CREATE", wrong))["response"]
    console.print(f"  allowed: {json.dumps(response['allowed'])}")
    console.print(f"  {response['status']['message']}", markup=False)

    console.print("\n[bold]A priority that falls from 10 to 3 lets others preempt, which is said and recorded:[/]")
    old, new = _changed(priority=10, preemption="Never"), _changed(priority=3, preemption="Never")
    answer = service.ask("POST", "/mutate-propagationpolicy", _review("UPDATE", new, old))
    for warning in answer["response"].get("warnings", []):
        console.print(f"  warning: {warning}", markup=False)
    _show_patch(console, answer)


def _changed(**spec: object) -> dict[str, Any]:
    return {**_POLICY, "spec": {**_POLICY["spec"], **spec}}


def _review(operation: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """What an API server would send."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7f0b2c9e-demo",
            "kind": {"group": "policy.karmada.io", "version": "v1alpha1", "kind": "PropagationPolicy"},
            "resource": {"group": "policy.karmada.io", "version": "v1alpha1", "resource": "propagationpolicies"},
            "operation": operation,
            "namespace": "default",
            "name": "web",
            "userInfo": {"username": "demo"},
            "object": obj,
            "oldObject": old,
        },
    }


def _show_patch(console: Console, answer: dict[str, Any]) -> None:
    patch = json.loads(base64.b64decode(answer["response"].get("patch") or "W10="))
    for operation in patch:
        value = json.dumps(operation["value"]) if "value" in operation else ""
        console.print(f"  {operation['op']} {operation['path']} {value}", markup=False)
