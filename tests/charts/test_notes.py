"""The notes after an install are true, and their commands name rendered objects."""

import json
import re

import pytest
from charts.cases import CASES

from charts import helm

SCHEDULES = "schedulerName: berthmaster"
INSPECTS = "deployment/berthmaster-certs -- berthmaster certs inspect"
DELETES = "delete mutatingwebhookconfiguration,validatingwebhookconfiguration berthmaster"


def notes(values):
    words = ("install", "berthmaster", str(helm.CHART), "--namespace=karmada-system", "--dry-run=client", "--values=-")
    return helm.run(*words, stdin=json.dumps({"image": helm.IMAGE, **values})).partition("NOTES:\n")[2]


@pytest.mark.parametrize(
    ("values", "said", "unsaid"),
    [
        pytest.param({}, {SCHEDULES, INSPECTS, DELETES, "--kubeconfig <the target's>"}, set(), id="by default"),
        pytest.param({"mode": "single"}, {DELETES}, {"--kubeconfig"}, id="one cluster needs no other kubeconfig"),
        pytest.param(
            {"controllers": {"enable": ["workload-rebalancer"]}}, set(), {SCHEDULES},
            id="no scheduling without the binding scheduler",
        ),
        pytest.param({"webhook": {"enabled": False}}, {SCHEDULES}, {INSPECTS, DELETES}, id="without the webhook"),
        pytest.param(
            CASES["console"], {"service/berthmaster-console 9444:443"}, set(),
            id="how to open the console",
        ),
        pytest.param({"registration": {"enabled": False}}, {"is not registered"}, {DELETES}, id="not registered"),
    ],
)  # fmt: skip
def test_notes_contain(values, said, unsaid):
    output = notes(values)
    assert {each for each in said if each in output} == said
    assert not {each for each in unsaid if each in output}
    assert not re.search(r"\n\n\n| \n", output), "no blank gaps"


def test_deployments_that_are_named_are_rendered():
    [name] = re.findall(r"deployment/(\S+)", notes({}))
    assert helm.named(helm.render({}), "Deployment", name)
