"""A wrong head of an object is an error of lint, simulate and plan alike."""

import json

import pytest
from click.testing import CliRunner
from fleet_dump import members
from tables import cases, data

from berthmaster.manifests.heads import head_errors
from berthmaster.model.errors import BerthmasterError
from berthmaster.model.unknown_types import unknown_type
from berthmaster_cli.main import main

WRONG = {name: tuple(each.values()) for name, each in data("heads").items()}


@pytest.fixture
def files(tmp_path):
    """A function that writes a text, and returns its file and that of a fleet."""

    def write(text):
        (tmp_path / "fleet.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": members("a")}))
        (tmp_path / "wrong.yaml").write_text(text)
        return tmp_path / "wrong.yaml", tmp_path / "fleet.json"

    return write


def run(*words):
    found = CliRunner().invoke(main, [str(each) for each in words])
    printed = str(found.exception) if isinstance(found.exception, BerthmasterError) else found.output
    return found.exit_code, printed


@cases(("text", "path", "message"), WRONG)
def test_every_command_refuses_a_wrong_head(files, text, path, message):
    wrong, fleet = files(text)
    for code, *words in (
        (1, "lint", wrong),
        (1, "simulate", "-f", fleet, "-f", wrong),
        (1, "plan", "--against", fleet, "-f", wrong),
    ):
        found, printed = run(*words)
        assert found in {code, 2}, printed
        assert f"{path}: " in printed
        assert message in printed


def test_a_lenient_command_warns_about_types_and_metadata(files):
    wrong, fleet = files(WRONG["misspelled labels of another API"][0])
    code, printed = run("simulate", "--lenient", "-f", fleet, "-f", wrong)
    assert (code, "metadata.lables: unknown field" in printed) == (0, True)


@cases(
    ("api_version", "kind"),
    {
        "a kind of Cluster API": ("cluster.x-k8s.io/v1beta1", "Cluster"),
        "a Service of Knative": ("serving.knative.dev/v1", "Service"),
        "a StatefulSet of OpenKruise": ("apps.kruise.io/v1alpha1", "StatefulSet"),
        "a Job of Volcano": ("batch.volcano.sh/v1alpha1", "Job"),
        "a MultiClusterIngress of Google": ("networking.gke.io/v1", "MultiClusterIngress"),
        "a gateway of Istio": ("networking.istio.io/v1", "Gateway"),
        "a policy of an audit": ("audit.k8s.io/v1", "Policy"),
        "a kind of a newer Kubernetes": ("apps/v1", "WorkloadGroup"),
        "a beta of a kind that still has one": ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy"),
        "an autoscaler of the older version": ("autoscaling/v1", "HorizontalPodAutoscaler"),
    },
)
def test_other_apis_can_have_the_names_of_kinds(api_version, kind):
    assert unknown_type(api_version, kind) is None


def test_metadata_of_a_catalog_is_not_misspelled():
    metadata = {"name": "a", "title": "A", "description": "b", "tags": [], "links": []}
    assert list(head_errors({"apiVersion": "backstage.io/v1alpha1", "kind": "Component", "metadata": metadata})) == []
