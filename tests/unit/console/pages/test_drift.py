"""The page Drift, and what Fleet and Workload say about drift."""

from datetime import timedelta

import console_answers as made
from console_source import GivenSource, console_client, refused_question
from fake_clock import START, FakeClock
from msgspec.structs import replace
from tables import cases

from berthmaster.native_api.drift import DriftQuery
from berthmaster.native_api.why import BindingOverview
from berthmaster.native_api.wire import Progress
from berthmaster.scheduling.karmada.goal import DriftKind
from berthmaster.scheduling.prices import CostChange
from console.pages.drift import KINDS, changes_of
from console.pages.workload_answers import answers
from console.source import SourceError

COMPUTING = refused_question("the drift is being computed", 503, progress=Progress("the drift", FakeClock().now()))


def page_of(view, address="/drift"):
    return console_client(GivenSource(drift=view)).get(address).text


def test_a_row_says_what_a_minimal_repair_changes():
    wide = made.workload_drift(clusters={}, minimal={f"c{number}": number + 1 for number in range(9)})
    assert changes_of(made.workload_drift()) == [("c", 0, 3), ("a", 3, 1), ("b", 1, 0)]
    assert (changes_of(wide)[0], len(changes_of(wide))) == (("c8", 0, 9), 9)
    page = page_of(made.drift_view(wide))
    assert 'href="/workloads/shop/web-deployment"' in page
    assert (page.count("0 → "), "and 3 more" in page) == (6, True)


def test_the_page_shows_figures_summaries_and_workloads():
    page = page_of(
        made.drift_view(
            made.workload_drift(),
            made.workload_drift("shop/Deployment/api", is_exact=False, moves=2),
            made.workload_drift(f"shop/Deployment/{made.HOSTILE}", policy=""),
            made.workload_drift("x/Job/y", kinds={}),
        )
    )
    assert "<strong>3</strong><span>not as their policies ask</span>" in page
    assert "A repair with fewer moves may exist for 1 of them." in page
    assert 'href="/drift?kind=NotFirstGroup"><strong>3</strong>' in page
    assert 'href="/policies/shop/web"' in page
    assert 'href="/workloads/shop/web-deployment"' in page
    assert 'href="/fleet/c"' in page
    assert "≤ 2" in page
    assert "c</code> 0 → 3" in page
    assert "<script>alert" not in page


def test_every_kind_of_drift_has_words():
    assert KINDS.keys() == {each.value for each in DriftKind}
    page = page_of(made.drift_view(made.workload_drift(kinds=dict.fromkeys(KINDS, 1))))
    assert [each for each in KINDS.values() if each not in page] == []


def test_the_question_has_the_filters_and_never_waits():
    source = GivenSource(drift=made.drift_view(made.workload_drift(), matched=70))
    page = console_client(source).get("/drift?q=web&kind=Weights&policy=all&cluster=a&sort=-moves&page=2").text
    ((_, (asked,), _),) = source.asked
    expected = DriftQuery("web", "Weights", "all", "a", sort="-moves", offset=50, limit=50, stale=True)
    assert asked == expected
    assert "51–70 of 70" in page


@cases(
    ("view", "address", "text"),
    {
        "no drift": (made.drift_view(), "/drift", "No workload drifts."),
        "nothing found": (made.drift_view(made.workload_drift(), matched=0), "/drift?q=x", "No workload matches"),
        "a gap": (made.drift_view(gaps=["no templates"]), "/drift", "no templates"),
        "a cost": (made.drift_view(cost=CostChange(-9.5)), "/drift", "A minimal repair saves 9.50 a month"),
        "an age": (made.drift_view(computed_at=START - timedelta(days=2)), "/drift", "2 d ago"),
    },
)
def test_the_page_says(view, address, text):
    assert text in page_of(view, address)


@cases(
    ("drift", "shown"),
    {
        "drift": (made.drift_view(made.workload_drift()), True),
        "no drift": (made.drift_view(made.workload_drift(kinds={})), False),
        "not computed yet": (COMPUTING, False),
        "not watched": (SourceError("bindings are not watched", 409), False),
    },
)
def test_the_first_figures_of_fleet_lead_to_the_page(drift, shown):
    page = console_client(
        GivenSource(fleet=made.fleet_view("a"), workloads=made.listed_workloads(made.workload_row("web")), drift=drift)
    ).get("/fleet")
    assert page.status_code == 200
    assert ('class="figure warn" href="/drift"' in page.text) is shown


@cases(
    ("drift", "binding", "line"),
    {
        "no drift": (made.workload_drift(kinds={}), {}, ("good", "It is as its policy asks.")),
        "drift": (made.workload_drift(), {}, ("warn", (
                f"Differs from its policy: {KINDS['NotFirstGroup']}; {KINDS['Weights']}. "
                "A minimal repair moves 3 replicas, to c (3) and a (1). A full repair moves 4."
            ))),
        "no group can hold it": (made.workload_drift(unplaced="no cluster fits"), {}, None),
        "not assigned yet": (made.workload_drift(), {"clusters": {}}, None),
        "not known": (None, {}, None),
    },
)  # fmt: skip
def test_a_workload_says_its_drift_in_one_line(drift, binding, line):
    overview = BindingOverview(made.binding_view(**binding), None, None, None, {}, "", drift=drift)
    found = [each for each in answers(overview, made.NOW) if each.question == "Drift"]
    assert [(each.kind, " ".join(each.texts)) for each in found] == ([] if line is None else [line])


def test_the_page_of_a_workload_has_the_line():
    given = made.workload_answers(binding=made.binding_view())
    given["overview"] = replace(given["overview"], drift=made.workload_drift())
    page = console_client(GivenSource(**given)).get("/workloads/shop/web-deployment").text
    assert "A minimal repair moves 3 replicas" in page


def test_the_page_of_a_large_fleet_stays_small():
    names = [f"eu-west-1-{number:04}" for number in range(5000)]
    drifts = [
        made.workload_drift(
            f"team-{number}/Deployment/checkout-{number}", policy=f"PropagationPolicy team-{number}/checkout",
            clusters=dict.fromkeys(names[number : number + 40], 3),
            minimal=dict.fromkeys(names[number + 20 : number + 60], 4),
        )
        for number in range(1000)
    ]  # fmt: skip
    view = made.drift_view(*drifts)
    assert len(page_of(replace(view, workloads=view.workloads[:50]))) < 100_000
