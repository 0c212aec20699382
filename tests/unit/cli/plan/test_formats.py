"""Markdown and pages of plans hold any name and any message without becoming markup, and stay within their limits."""

import html
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from tables import cases

from berthmaster.scheduling.karmada.trigger import Trigger
from berthmaster.simulation.plan_answer import Plan, PlannedMove, PlanSummary
from berthmaster.views.plan_drawing import drawing, flows
from berthmaster_cli.plan.page import MAX_ROWS, markdown_lines, page

HOSTILE = "a|b`c\n# d<script>alert(1)</script>&amp; [x](http://e) @team **bold** ::error::"


def move(resource="default/Deployment/web", before=None, after=None, **fields):
    then, now = before or {}, after or {}
    moves = {name: (then.get(name), now.get(name)) for name in {**then, **now} if then.get(name) != now.get(name)}
    values = {
        "policy_before": None, "policy": None, "group_before": None, "group": None, "replicas": 0, "deleted": [],
        "preserved": [], "evicting": [], "trigger": Trigger.RECONCILE, "reason": "", **fields,
    }  # fmt: skip
    return PlannedMove(resource=resource, before=then, after=now, moves=moves, **values)


def plan(*moves, gaps=()):
    summary = PlanSummary(len(moves), len(moves), 0, [], [], [])
    return Plan("0123456789abcdef", summary, 0, 0, not gaps, list(gaps), [], [], list(moves), [], [], [])


class _Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), []

    def handle_starttag(self, tag, _attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_a_page_shows_any_name_as_text():
    found = plan(move(HOSTILE, {HOSTILE: 1}, {"b": 1}, reason=HOSTILE, deleted=[HOSTILE]), gaps=[HOSTILE])
    parser = _Tags()
    parser.feed("\n".join(page(found)))
    assert parser.open == []
    assert "script" not in parser.seen
    assert "<script>alert(1)</script>" in "".join(parser.text)


def test_a_page_needs_no_network_and_no_script():
    text = "\n".join(page(plan(move(before={"a": 1}, after={"b": 1}))))
    assert not re.search(r"https?://|src=|href=|url\(|<script|@import", text)


def test_markdown_shows_any_name_in_one_cell():
    lines = list(markdown_lines(plan(move(HOSTILE, {"a": 1}, {"b": 1}, reason=HOSTILE), gaps=[HOSTILE])))
    row = next(each for each in lines if "Deployment" not in each and "a=1" in each)
    assert row.count("|") == lines[lines.index(row) - 1].count("|")
    assert not any("<script" in each or "`" in each or "@team" in each or "](" in each for each in lines)
    assert all("\n" not in each for each in lines)


@cases(
    "text",
    {
        "a user": "@alice", "a team": "@shop/team", "an issue": "#12", "an issue of another repository": "a/b#12",
        "an issue by its word": "GH-12", "a commit": "0123abc", "an address": "https://a.b", "a host": "www.a.b",
        "a merge request": "!3", "a snippet": "$4", "a label": "~urgent", "an epic": "&5", "a milestone": "%next",
        "within a word": "web@alice",
    },
)  # fmt: skip
def test_markdown_mentions_nobody_and_links_to_nothing(text):
    """Forges look for mentions in the text of the rendered page, but not in code."""
    lines = markdown_lines(plan(move(reason=f"because {text} says so"), gaps=[f"what {text} does"]), [f"over {text}"])
    page = html.unescape("\n".join(lines))
    assert page.count(text) == page.count(f"<code>{text}</code>") == 3


def test_markdown_is_short_enough_for_a_comment():
    many = [move(f"default/Deployment/{'n' * 200}-{number}", {"a": 1}, {"b": 1}) for number in range(5000)]
    text = "\n".join(markdown_lines(plan(*many)))
    assert len(text) < 65_536
    assert f"and {5000 - MAX_ROWS} more" in text


@cases(
    ("moves", "expected"),
    {
        "replicas move": ([move(before={"a": 3}, after={"b": 3})], {("a", "b"): 3}),
        "they divide": ([move(before={"a": 3, "b": 1}, after={"b": 2, "c": 2})], {("a", "b"): 1, ("a", "c"): 2}),
        "new replicas": ([move(before={}, after={"b": 2})], {("", "b"): 2}),
        "replicas that go away": ([move(before={"a": 2}, after={})], {("a", ""): 2}),
        "copies": ([move(before={"a": 0, "b": 0}, after={"c": 0})], {("a", "c"): 1, ("b", ""): 1}),
        "a sum": ([move(before={"a": 1}, after={"b": 1}), move(before={"a": 2}, after={"b": 2})], {("a", "b"): 3}),
    },
)
def test_what_goes_where(moves, expected):
    assert flows(moves) == expected


def test_the_drawing_is_well_formed_and_bounded():
    many = [
        move(before={f"from-{number}": number + 1}, after={f"to-{number % 50}": number + 1}) for number in range(90)
    ]
    text = drawing([*many, move(before={HOSTILE: 1}, after={"x": 1})])
    found = ET.fromstring(text)  # noqa: S314 - ours
    names = ["".join(each.itertext()) for each in found.iter("text")]
    assert sum("from-" in each for each in names) <= 24
    assert any(each.startswith("others") for each in names)
    bars = [(float(each.get("y")), float(each.get("height"))) for each in found.iter("rect")]
    height = float(found.get("viewBox").split()[3])
    assert all(top >= 0 and top + size <= height for top, size in bars)


def test_nothing_is_drawn_if_nothing_moves():
    assert drawing([]) == ""


def test_documents_say_which_limit_is_exceeded():
    found, problem = plan(move(before={"a": 1}, after={"b": 1})), "--max-moves 0: 1 workload would move"
    parser = _Tags()
    parser.feed("\n".join(page(found, [problem])))
    assert problem in parser.text
    assert f"**{problem}**" in map(html.unescape, markdown_lines(found, [problem]))
