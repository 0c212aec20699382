"""The manifests of docs/gitops.md: their fields exist, they fit together, and the Job's command is one."""

import re
from pathlib import Path

import yaml

from berthmaster_cli.flags import parsed
from berthmaster_cli.plan.command import PlanFlags, command
from webhook.admission.context import AdmissionContext
from webhook.admission.linting import lint
from webhook.admission.settings import AdmissionSettings

PAGE = (Path(__file__).parents[3] / "docs" / "gitops.md").read_text()
OBJECTS = [
    each
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for each in yaml.safe_load_all(block)
]
# The fields that the page uses, by the references of Flux and of Argo CD. The API server knows the Job's: tests/e2e.
FIELDS = {
    "kustomize.toolkit.fluxcd.io/v1": {
        "dependsOn": ["name"], "interval": None, "path": None, "prune": None, "wait": None,
        "sourceRef": ["kind", "name"], "kubeConfig": ["secretRef"],
    },
    "argoproj.io/v1alpha1": {
        "project": None, "source": ["repoURL", "targetRevision", "path"],
        "destination": ["server", "namespace", "name"], "syncPolicy": ["automated"],
    },
}  # fmt: skip


def named(kind, name=""):
    """The first object of a kind and name."""
    return next(each for each in OBJECTS if each["kind"] == kind and each.get("metadata", {}).get("name", "") == name)


def test_every_field_is_one_of_its_product():
    for each in OBJECTS:
        known = FIELDS.get(each["apiVersion"])
        for field, value in each.get("spec", {}).items() if known else ():
            inner = (
                {key for part in (value if isinstance(value, list) else [value]) for key in part}
                if known[field]
                else set()
            )
            assert inner <= set(known[field] or ()), field
    assert FIELDS.keys() <= {each["apiVersion"] for each in OBJECTS}


def test_the_job_plans_what_the_kustomization_generates():
    pod = named("Job", "berthmaster-plan")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program, *words = container["args"]
    flags = parsed(PlanFlags, command, words)
    assert program == "plan"
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    (render,) = pod["initContainers"]
    assert flags.paths == (mounts["rendered"],)
    assert f"{mounts['rendered']}/policies.yaml" in render["args"]
    assert flags.strict_namespace
    assert str(flags.kubeconfig).startswith(mounts["access"])
    assert (flags.conditions, flags.max_percent) == (("lost",), 20)
    (generated,) = named("Kustomization")["configMapGenerator"]
    assert {"name": "policies", "configMap": {"name": generated["name"]}} in pod["volumes"]


def test_the_policies_follow_the_plan():
    plan, policies = named("Kustomization", "plan"), named("Kustomization", "policies")
    assert policies["spec"]["dependsOn"] == [{"name": plan["metadata"]["name"]}]
    assert plan["spec"]["wait"]
    assert policies["spec"]["sourceRef"] == plan["spec"]["sourceRef"]


def test_the_policy_of_the_job_has_no_findings():
    found = lint(
        named("PropagationPolicy", "berthmaster-plan"), AdmissionContext(AdmissionSettings(), lambda: ""), "default"
    )
    assert (found.errors, found.warnings) == ((), ())
