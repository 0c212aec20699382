"""Links to other sites: templates of the configuration, filled with escaped values."""

import pytest
from console_answers import fleet_cluster, fleet_view, listed_workloads
from console_source import GivenSource, console_client
from tables import cases

from berthmaster.model.errors import InputError
from console.links import LinkWriter, other_console, outside_link

LINKS = (
    outside_link("workload:Logs=https://logs/{namespace}/{name}?cluster={cluster}"),
    outside_link("workload:Git=https://git/search?q={kind}/{name}"),
    outside_link("cluster:Dashboard=https://grafana/d?var={cluster}"),
    outside_link("policy:Git=https://git/{kind}/{namespace}/{name}"),
)


def test_a_link_of_a_workload_is_one_for_each_cluster_that_it_names():
    found = LinkWriter(LINKS).of_workload("shop", "Deployment", "web", {"b": 1, "a": 2})
    assert [tuple(each) for each in found] == [
        ("Logs on a", "https://logs/shop/web?cluster=a"),
        ("Logs on b", "https://logs/shop/web?cluster=b"),
        ("Git", "https://git/search?q=Deployment/web"),
    ]


def test_a_value_cannot_leave_its_place():
    (link,) = LinkWriter(LINKS).of_cluster('a&b=/../#"><script>')
    assert link.address == "https://grafana/d?var=a%26b%3D%2F..%2F%23%22%3E%3Cscript%3E"


@cases(
    ("text", "problem"),
    {
        "no subject": ("Logs=https://logs", "is no link"),
        "another subject": ("fleet:Logs=https://logs", "one of cluster, workload, policy"),
        "no title": ("cluster:=https://logs", "a title, an equals sign"),
        "a script": ("cluster:Logs=javascript:alert(1)", "an address with http or https"),
        "an unknown place": ("cluster:Logs=https://logs/{namespace}", "has no place {namespace}"),
    },
)
def test_a_wrong_link_is_refused_at_the_start(text, problem):
    with pytest.raises(InputError, match=problem.replace("{", "\\{")):
        outside_link(text)


def test_a_page_has_its_links_and_the_switch_between_consoles():
    source = GivenSource(fleet=fleet_view(fleet_cluster("a")), workloads=listed_workloads())
    consoles = (other_console("staging=https://console.staging.example.org/"),)
    page = console_client(source, links=LINKS, consoles=consoles).get("/fleet/a").text
    assert '<a href="https://grafana/d?var=a" rel="noreferrer">Dashboard</a>' in page
    assert '<a href="https://console.staging.example.org/">staging</a>' in page
