"""``GET /v1/workloads``: filters by what only the resource template says, and workloads of which no copy runs."""

import pytest
from extender_services import asked, services_of, world_with
from karmada_plane import binding, cluster, deployment, policy, selector
from tables import cases

from berthmaster.native_api.fleet import WorkloadPage
from extender.protocols import native
from extender.protocols.problem import Refusal

HELD = policy("all", selector(), placement={"clusterAffinity": {"clusterNames": ["a", "lost"]}})
ROUTE = next(each for each in native.routes() if (each.method, each.path) == ("GET", "/v1/workloads"))
TEAMS = {"web": ("shop", "alice"), "api": ("shop", "bob"), "cron": ("search", "alice")}


def services():
    lost = cluster("lost")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": "timed out"}]
    objects = [cluster("a"), lost, HELD]
    for name, (team, owner) in TEAMS.items():
        template = deployment(name, 2, by=HELD)
        template["metadata"].setdefault("labels", {})["team"] = team
        template["metadata"].setdefault("annotations", {})["example.org/owner"] = owner
        objects += [template, binding(template, HELD, **{"lost" if name == "cron" else "a": 2})]
    made = services_of(world_with(*objects))
    made.state.owner = "example.org/owner"
    return made


@cases(
    ("query", "names"),
    {
        "everything": ({}, ["api", "cron", "web"]),
        "a label": ({"label": "team=shop"}, ["api", "web"]),
        "two labels": ({"label": "team=shop,team!=shop"}, []),
        "an owner": ({"owner": "alice"}, ["cron", "web"]),
        "a part of an owner": ({"owner": "ALI", "parts": "true"}, ["cron", "web"]),
        "only a whole name counts": ({"owner": "ali"}, []),
        "both": ({"owner": "alice", "label": "team in (shop)"}, ["web"]),
        "without a copy that runs": ({"only": "stopped"}, ["cron"]),
        "of another namespace": ({"only": "stopped", "namespaces": "other"}, []),
    },
)
def test_workloads_by_label_owner_and_copies(query, names):
    page = asked(services(), ROUTE, WorkloadPage, **query)
    assert [each.name for each in page.items] == names
    assert page.matched == len(names)
    assert [each.name for each in page.items if each.stopped] == [each for each in names if each == "cron"]
    visible = query.get("namespaces") != "other"
    expected = "cron" in names or (visible and set(query) <= {"only", "namespaces"})
    assert page.facets.only["stopped"] == int(expected)


def test_a_wrong_selector_is_refused():
    with pytest.raises(Refusal, match="query parameter label"):
        asked(services(), ROUTE, WorkloadPage, label="team in shop")
