"""Changes as people write them, on the command line and in the console."""

import pytest

from berthmaster.model.cluster import Taint
from berthmaster.model.errors import InputError
from berthmaster.simulation.change_texts import label_change, scale_change, taint_change
from berthmaster.simulation.changes import AddLabel, AddTaint, RemoveLabel, RemoveTaint, Scale
from berthmaster.simulation.workload import ResourceName


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        pytest.param(
            taint_change,
            "c=a/b=v:NoExecute",
            AddTaint("c", Taint(key="a/b", value="v", effect="NoExecute")),
            id="taint",
        ),
        pytest.param(taint_change, "c=k:NoSchedule-", RemoveTaint("c", "k", "NoSchedule"), id="one taint removed"),
        pytest.param(taint_change, "c=k-", RemoveTaint("c", "k", ""), id="taints with a key removed"),
        pytest.param(label_change, "c=env=prod", AddLabel("c", "env", "prod"), id="label"),
        pytest.param(label_change, "c=env-", RemoveLabel("c", "env"), id="label removed"),
        pytest.param(
            scale_change, "shop/deploy/web=7", Scale(ResourceName("shop", "Deployment", "web"), 7), id="scale"
        ),
        pytest.param(scale_change, "Widget/a=0", Scale(ResourceName("", "Widget", "a"), 0), id="scale of another kind"),
    ],
)
def test_the_forms_of_changes(read, text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text", "accepted"),
    [
        pytest.param(taint_change, "c=k:Sometimes", "CLUSTER=KEY", id="an unknown effect"),
        pytest.param(taint_change, "", "CLUSTER=KEY", id="an empty taint"),
        pytest.param(label_change, "c=", "CLUSTER=KEY=VALUE", id="a label without a key"),
        pytest.param(scale_change, "web=3", "KIND/NAME or NAMESPACE/KIND/NAME", id="a workload without a kind"),
        pytest.param(scale_change, "Deployment/web=" + "9" * 5000, "N from 0 to", id="a very large number"),
        pytest.param(scale_change, "Deployment/web=-1", "N from 0 to", id="a negative number"),
    ],
)
def test_another_form_is_an_error_that_names_what_is_accepted(read, text, accepted):
    with pytest.raises(InputError, match=accepted) as error:
        read(text)
    assert len(str(error.value)) < 300
