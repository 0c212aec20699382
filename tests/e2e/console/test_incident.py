"""The twelve questions of an incident in docs/console-questions.md: each is answered at most two clicks from Fleet."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from console_ledger import AUTHOR
from karmada_plane import binding, cluster, deployment, policy, selector
from playwright.sync_api import expect

from berthmaster.model.move import MOVE, MovePhase, MoveReason, MoveState, annotation_of

DOCS = Path(__file__).parents[3] / "docs" / "console-questions.md"
NAMESPACE = "incident"
REFUSED = "x509: certificate has expired or is not yet valid"


class Question(NamedTuple):
    """What is clicked after Fleet, as patterns of links or summaries, and what the last page says."""

    clicks: tuple[str, ...]
    answer: str


QUESTIONS = {
    "What stopped, and since when?": Question(
        (),
        r"No copy runs.*incident-dead since [4-9] min[^.]* ago.*"
        r"1 workload here has no copy that runs, with 700 replicas",
    ),
    "Which workloads does the dead cluster stop?": Question((r"^Which workloads$",), r"only-copy.*no copy runs"),
    "What moved off the dead cluster?": Question(
        (r"^incident-dead$", r"^What moved here\?$"), r"What moved since .*Nothing moved"
    ),
    "What do I type about the dead cluster?": Question(
        (r"^What to type$",), r"kubectl describe clusters\.cluster\.karmada\.io incident-dead.*"
        r"berthmaster simulate --down incident-dead.*berthmaster drain incident-dead --dry-run",
    ),
    "What waits, and for what?": Question((r"^Moves$",), r"Budgets.*waits"),
    "Which policy edit came just before, and who made it?": Question(
        (), rf"shop/Deployment/checkout.*Just before:.*PropagationPolicy shop/checkout changed by {AUTHOR}"
    ),
    "What did this edit move?": Question((r"^What it moved$",), r"fewer replicas|placed"),
    "Which cluster refuses because of its certificate?": Question((), rf"incident-certificate since .*{REFUSED}"),
    "Which move is stuck, and since when?": Question(
        (), r"Moves that take too long.*incident/Deployment/stuck since 20 min"
    ),
    "Where are the copies of the stuck move?": Question((r"^incident.Deployment.stuck$",), r"Copies during the move"),
    "Which clusters are full?": Question((r"nearly full",), r"incident-full"),
    "Do the controllers work?": Question((), r"Control plane.*No controller has renewed its lease"),
}  # fmt: skip


@pytest.fixture(scope="module")
def incident(console):
    """A cluster that died with the only copy of a workload, one with a bad certificate, a full one, a stuck move."""
    now = datetime.now(UTC)
    before = [console.put(each) for each in _objects(now)]
    console.renew(now - timedelta(minutes=10))
    yield console
    for path in before:
        console.api.remove(path)


def _objects(now):
    dead, refused, full = (cluster(f"incident-{each}", 16) for each in ("dead", "certificate", "full"))
    for made, minutes, message in ((dead, 4, "connection timed out"), (refused, 90, REFUSED)):
        made["status"]["conditions"] = [
            {"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": message,
             "lastTransitionTime": (now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        ]  # fmt: skip
    full["status"]["resourceSummary"] = {
        "allocatable": {"cpu": "16", "pods": "110"}, "allocated": {"cpu": "16", "pods": "20"},
    }  # fmt: skip
    claimant = policy("incident", selector(), namespace=NAMESPACE, placement={"clusterAffinity": {"clusterNames": []}})
    yield from (dead, refused, full, claimant)
    for name, replicas, clusters in (
        ("only-copy", 700, {"incident-dead": 700}), ("stuck", 3, {"incident-full": 3, "berlin-01": 3}),
    ):  # fmt: skip
        template = deployment(name, replicas, namespace=NAMESPACE, by=claimant)
        bound = binding(template, claimant, **clusters)
        if name == "stuck":
            late = now - timedelta(minutes=20)
            state = MoveState(
                reason=MoveReason.FAILBACK, phase=MovePhase.SURGING, source={"incident-full": 3},
                target={"berlin-01": 3}, started_at=late, since=late, until=late,
            )  # fmt: skip
            bound["metadata"]["annotations"][MOVE] = annotation_of(state)
        yield template
        yield bound


def click(page, step):
    """Click the link or the summary, and wait for what it opens."""
    pattern, here = re.compile(step), page.url
    summary = page.locator("summary").filter(has_text=pattern)
    if summary.count():
        summary.first.click()
        return
    page.get_by_role("link", name=pattern).first.click()
    expect(page).not_to_have_url(here)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_of_an_incident_is_answered_within_two_clicks(visit, incident, question):
    clicks, answer = QUESTIONS[question]
    assert len(clicks) <= 2
    page = visit("/fleet")
    expect(page.get_by_text("incident-dead").first).to_be_visible()
    for step in clicks:
        click(page, step)
    expect(page.get_by_role("main")).to_contain_text(re.compile(answer, re.DOTALL))
    assert incident.url in page.url


def test_the_documentation_lists_the_questions_of_an_incident():
    table = DOCS.read_text().partition("## Twelve questions of an incident")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|]+\?) \|", table, re.MULTILINE) == list(QUESTIONS)


def test_the_problems_and_their_commands_are_accessible(visit, incident):
    page = visit("/fleet")
    page.get_by_text("What to type").first.click()
    visit.accessible(page)
    assert incident.url in page.url


def test_a_command_is_copied(browser, incident, axe):
    from e2e.console.visits import start_visits  # noqa: PLC0415 - used once

    with start_visits(browser, incident.url, axe, permissions=["clipboard-read", "clipboard-write"]) as visits:
        page = visits("/fleet/incident-full")
        page.get_by_text("Commands").first.click()
        first = page.locator(".commands li").first
        first.get_by_role("button", name="Copy").click()
        expect(first.get_by_role("button")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == first.locator("code").inner_text()
