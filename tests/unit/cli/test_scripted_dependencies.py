"""What follows a workload (propagateDeps): by the scripts of a control plane, and by those that Karmada brings."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import members, stored_policy
from tables import cases

from berthmaster.model.dependencies import dependencies_of
from berthmaster_cli.main import main

POD = {
    "serviceAccountName": "own",
    "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "env"}}]}],
}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 1, "template": {"spec": POD}},
}  # fmt: skip
OTHERS = [
    {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    for kind, name in (("ConfigMap", "env"), ("ServiceAccount", "own"), ("Service", "web"))
]


def customization(script, kind="Deployment", name="a"):
    return {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": kind},
            "customizations": {"dependencyInterpretation": {"luaScript": script}},
        },
    }  # fmt: skip


def naming(kind, name):
    fields = f"apiVersion = 'v1', kind = '{kind}', name = '{name}', namespace = obj.metadata.namespace"
    return f"function GetDependencies(obj) return {{{{{fields}}}}} end"


@pytest.fixture
def run(tmp_path):
    def run(*customizations):
        policy = stored_policy(to=["a"], propagateDeps=True, new=True, target={"name": "web"})
        objects = [*members("a"), policy, DEPLOYMENT, *OTHERS, *customizations]
        (tmp_path / "fleet.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        found = CliRunner().invoke(main, ["simulate", f"--filename={tmp_path}/fleet.json", "--output=json"])
        assert found.exit_code == 0, found.output + repr(found.exception)
        rows = json.loads(found.stdout)["items"]
        return {
            each["resource"].partition("/")[2]
            for each in rows
            if each["clusters"] and "Deployment" not in each["resource"]
        }

    return run


@cases(
    ("customizations", "following"),
    {
        "Karmada's own interpreter": ([], {"ConfigMap/env", "ServiceAccount/own"}),
        "a script, and nothing else": ([customization(naming("Service", "web"))], {"Service/web"}),
        "a script that names nothing": ([customization("function GetDependencies(obj) return {} end")], set()),
        "a script that returns nil": ([customization("function GetDependencies(obj) end")], set()),
        "the functions of Karmada": (
            [
                customization(
                    "local kube = require('kube') function GetDependencies(obj) "
                    "return kube.getPodDependencies(obj.spec.template, obj.metadata.namespace) end"
                )
            ],
            {"ConfigMap/env", "ServiceAccount/own"},
        ),
        "of two scripts the first by name": (
            [customization(naming("ConfigMap", "env"), name="b"), customization(naming("Service", "web"))],
            {"Service/web"},
        ),
        "a script of another kind": (
            [customization(naming("Service", "web"), kind="StatefulSet")], {"ConfigMap/env", "ServiceAccount/own"},
        ),
        "a script that fails": ([customization("function GetDependencies(obj) error('no') end")], set()),
    },
)  # fmt: skip
def test_scripts_come_first(run, customizations, following):
    assert run(*customizations) == following


def needed(api_version, kind, spec):
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ml"}, "spec": spec}
    return {f"{each.kind}/{each.name}" for each in dependencies_of(raw) or ()}


SECRET = {"secretRef": {"name": "key"}}


@cases(
    ("api_version", "kind", "spec", "expected"),
    {
        "the submitter of a RayJob": (
            "ray.io/v1", "RayJob",
            {
                "submitterPodTemplate": {"spec": POD},
                "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"serviceAccountName": "head"}}}},
            },
            {"ConfigMap/env", "ServiceAccount/own", "ServiceAccount/head"},
        ),
        "a HelmRelease": (
            "helm.toolkit.fluxcd.io/v2beta1", "HelmRelease",
            {
                "serviceAccountName": "helm", "kubeConfig": SECRET,
                "chart": {"spec": {"verify": {"secretRef": {"name": "sign"}}}},
                "valuesFrom": [
                    {"kind": "Secret", "name": "values"}, {"kind": "ConfigMap", "name": "values"},
                    {"kind": "Other", "name": "x"},
                ],
            },
            {"Secret/key", "Secret/sign", "Secret/values", "ConfigMap/values", "ServiceAccount/helm"},
        ),
        "a Kustomization of Flux": (
            "kustomize.toolkit.fluxcd.io/v1", "Kustomization",
            {"decryption": {"secretRef": {"name": "age"}}, "kubeConfig": SECRET, "serviceAccountName": "flux"},
            {"Secret/age", "Secret/key", "ServiceAccount/flux"},
        ),
        "a repository of git": (
            "source.toolkit.fluxcd.io/v1", "GitRepository", {**SECRET, "verify": {"secretRef": {"name": "sign"}}},
            {"Secret/key", "Secret/sign"},
        ),
        "a bucket": ("source.toolkit.fluxcd.io/v1beta2", "Bucket", SECRET, {"Secret/key"}),
        "a chart": ("source.toolkit.fluxcd.io/v1beta2", "HelmChart", {**SECRET, "verify": SECRET}, {"Secret/key"}),
        "a repository of charts": ("source.toolkit.fluxcd.io/v1beta2", "HelmRepository", SECRET, {"Secret/key"}),
        "a repository of OCI": (
            "source.toolkit.fluxcd.io/v1beta2", "OCIRepository",
            {**SECRET, "certSecretRef": {"name": "cert"}, "serviceAccountName": "oci"},
            {"Secret/key", "Secret/cert", "ServiceAccount/oci"},
        ),
        "a Workflow": (
            "argoproj.io/v1alpha1", "Workflow",
            {
                "serviceAccountName": "default", "executor": {"serviceAccountName": "executor"},
                "imagePullSecrets": [{"name": "pull"}], "volumeClaimTemplates": [{"metadata": {"name": "work"}}],
                "volumes": [
                    {"name": "a", "configMap": {"name": "settings"}},
                    {"name": "b", "secret": {"secretName": "of-pods"}},
                    {"name": "c", "secret": {"name": "of-workflows"}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                ],
            },
            {
                "ServiceAccount/executor", "Secret/pull", "Secret/of-workflows", "ConfigMap/settings",
                "PersistentVolumeClaim/work", "PersistentVolumeClaim/data",
            },
        ),
        "fields of the wrong type": ("source.toolkit.fluxcd.io/v1beta2", "Bucket", {"secretRef": {"name": 1}}, set()),
        "no spec": ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", None, set()),
    },
)  # fmt: skip
def test_kinds_that_karmada_interprets_itself(api_version, kind, spec, expected):
    assert needed(api_version, kind, spec) == expected
