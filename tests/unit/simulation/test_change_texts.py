"""Changes as people write them."""

from contextlib import suppress
from dataclasses import fields
from typing import get_args

import pytest
from tables import cases

from berthmaster.model.errors import InputError
from berthmaster.model.taint import Taint
from berthmaster.simulation.change_texts import (
    CHANGE_TEXTS,
    WrittenChanges,
    label_change,
    scale_change,
    taint_change,
)
from berthmaster.simulation.changes import (
    AddCluster,
    AddLabel,
    AddTaint,
    ClusterEdit,
    RemoveLabel,
    RemoveTaint,
    Reschedule,
    Scale,
    WhatIf,
    WireChange,
    WorkloadEdit,
)
from berthmaster.simulation.workload import ResourceName
from berthmaster_cli.change_options import ChangeFlags

REMOVAL = "member1=gpu-"


def kinds_below(base):
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_below(kind)


def test_the_api_accepts_each_kind_of_change():
    kinds = {each for each in kinds_below(WireChange) if each.__module__ == WireChange.__module__}
    assert set(get_args(WhatIf)) == kinds - {ClusterEdit, WorkloadEdit}


def test_each_kind_of_change_can_be_written():
    """A cluster that joins is a file, and a rescheduling has no text."""
    written = set()
    for each in CHANGE_TEXTS:
        written.add(type(each.read(each.example)))
        with suppress(InputError):
            written.add(type(each.read(REMOVAL)))
    assert written == {*get_args(WhatIf)} - {AddCluster, Reschedule}


def test_each_kind_has_an_option_and_a_field_of_the_form():
    options = {f"--{each.name}" for each in fields(ChangeFlags)}
    assert options >= {each.option for each in CHANGE_TEXTS}
    assert WrittenChanges.__struct_fields__ == tuple(each.field for each in CHANGE_TEXTS)


@cases(
    ("read", "text", "expected"),
    {
        "taint": (taint_change, "c=a/b=v:NoExecute", AddTaint("c", Taint(key="a/b", value="v", effect="NoExecute"))),
        "one taint removed": (taint_change, "c=k:NoSchedule-", RemoveTaint("c", "k", "NoSchedule")),
        "taints with a key removed": (taint_change, "c=k-", RemoveTaint("c", "k", "")),
        "label": (label_change, "c=env=prod", AddLabel("c", "env", "prod")),
        "label removed": (label_change, "c=env-", RemoveLabel("c", "env")),
        "scale": (scale_change, "shop/deploy/web=7", Scale(ResourceName("shop", "Deployment", "web"), 7)),
        "scale of another kind": (scale_change, "Widget/a=0", Scale(ResourceName("", "Widget", "a"), 0)),
    },
)
def test_the_forms_of_changes(read, text, expected):
    assert read(text) == expected


@cases(
    ("read", "text", "accepted"),
    {
        "an unknown effect": (taint_change, "c=k:Sometimes", "CLUSTER=KEY"),
        "an empty taint": (taint_change, "", "CLUSTER=KEY"),
        "a label without a key": (label_change, "c=", "CLUSTER=KEY=VALUE"),
        "a workload without a kind": (scale_change, "web=3", "KIND/NAME or NAMESPACE/KIND/NAME"),
        "a very large number": (scale_change, "Deployment/web=" + "9" * 5000, "N from 0 to"),
        "a negative number": (scale_change, "Deployment/web=-1", "N from 0 to"),
    },
)
def test_another_form_is_an_error_that_names_what_is_accepted(read, text, accepted):
    with pytest.raises(InputError, match=accepted) as error:
        read(text)
    assert len(str(error.value)) < 300
