"""The ten questions of docs/console-questions.md: each is answered at most two clicks from Fleet."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

DOCS = Path(__file__).parents[3] / "docs" / "console-questions.md"
FIRST_ROW = "the first row"
QUESTIONS = {
    "What is wrong now?": ((), r"nowhere.*not ready"),
    "Which clusters are not ready, and why?": ((r"^\d+ not ready",), "does not answer: connection timed out"),
    "Why is it nowhere?": (
        (r"^\d+ nowhere", FIRST_ROW),
        r"It is assigned to no cluster\..*One replica requests CPU 4,000\..*passes the filters has free: CPU \d",
    ),
    "Why is it not in its preferred group?": ((r"^\d+ not in", FIRST_ROW), r"Why not home.*(hold|pass)"),
    "Why did it leave its group?": (
        (r"^History$", r"^shop.Deployment.checkout$"),
        r"Why it left home.*This made the difference: .*replicas: 6 → 60",
    ),
    "Where do the old copies run during a move?": (
        (r"^\d+ moving", FIRST_ROW), r"Copies during the move.*Old copies\. They go",
    ),
    "What moved since yesterday, here?": (
        ("recorded-spare", r"^What moved here\?$"), r"- recorded-home-1 \(\d\), \+ recorded-spare \(60\)",
    ),
    "What does this policy allow?": (
        (r"^Policies$", r"^shop.everyday$"), r"What it allows.*Clusters with region=.*CPU.*Replicas.*Failback",
    ),
    "What happens if this fails?": ((r"^Resilience$", "^What if .* fails$"), r"If \d+ .*fails?:.*(move|stop|Nothing)"),
    "What waits, and for what?": ((r"^Moves$",), r"Budgets.*waits"),
}  # fmt: skip
"""The clicks after Fleet, as patterns of links, and what the last page says."""


def click(page, step):
    if step == FIRST_ROW:
        page.get_by_role("main").get_by_role("rowheader").first.get_by_role("link").click()
    else:
        page.get_by_role("link", name=re.compile(step)).first.click()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(visit, question):
    steps, answer = QUESTIONS[question]
    assert len(steps) <= 2
    page = visit("/fleet")
    for step in steps:
        here = page.url
        click(page, step)
        expect(page).not_to_have_url(here)
    expect(page.get_by_role("main")).to_contain_text(re.compile(answer, re.DOTALL))


def test_the_documentation_lists_these_questions():
    table = DOCS.read_text().partition("## Ten questions")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| ([^|]+\?) \|", table, re.MULTILINE)
    assert listed == list(QUESTIONS)
