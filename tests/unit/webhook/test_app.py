"""The webhook's application and its pages."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path

import pytest
import yaml
from fake_clock import FakeClock
from policy_pages import KUBEADMIRAL, REBALANCER, completed, lint_example, made
from reviews import POLICY, UID, admission_review
from rule_pages import FOLDER, LISTED, RULES, findings, pages
from tables import cases

from webhook import reviewer as reviewer_module
from webhook.admission import karmada_checks, rebalancer, rules
from webhook.admission.blast_radius import BlastRadius
from webhook.admission.catalog import ROUTES
from webhook.admission.field_problem import FieldProblem
from webhook.admission.gate import ACCEPT_PLAN
from webhook.admission.impact import PolicyImpact
from webhook.admission.kubeadmiral import policies as kubeadmiral_policies
from webhook.admission.rules.rule import AdmissionRule
from webhook.admission.settings import AdmissionSettings, Level
from webhook.app import create_app
from webhook.reviewer import Reviewer

PATH = "/mutate-propagationpolicy"
BODY = json.dumps(admission_review(POLICY)).encode()
BROKEN = {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}
BROKEN_FIELDS = ["spec.placement", "spec.resourceSelectors[0].namespace"]


@pytest.fixture
def app():
    return create_app(Reviewer(AdmissionSettings(peer_checks=True)), body_bytes=4096)


def test_a_crash_is_answered_with_the_uid_of_the_review(monkeypatch, app):
    def crash(*_args):
        raise ZeroDivisionError

    monkeypatch.setattr(reviewer_module, "review_body", crash)
    answer = app.test_client().post(PATH, data=BODY, content_type="application/json")
    assert answer.status_code == 200
    assert answer.json["response"]["uid"] == UID
    assert answer.json["response"]["allowed"] is False
    assert answer.json["response"]["status"]["code"] == 500


@cases(
    ("path", "body", "content_type", "message", "expected"),
    {
        "a denied review names its fields": ("/validate-propagationpolicy",
            admission_review({**POLICY, "spec": {**POLICY["spec"], "placement": BROKEN}}),
            "application/json",
            "review denied",
            {"verdict": "denied", "namespace": "shop", "name": "", "denied_fields": BROKEN_FIELDS}),
        "a malformed review names its object": (PATH,
            admission_review({**POLICY, "spec": {"priority": "confidential"}}),
            "application/json",
            "review malformed",
            {"verdict": "malformed", "uid": UID, "namespace": "shop", "denied_fields": []}),
        "a refused request names its problem": (PATH, admission_review(POLICY), "text/plain", "request refused",
            {"status": 415, "uid": UID, "path": PATH, "problem": "content type 'text/plain' is not application/json"}),
        "an unknown path": ("/unknown", admission_review(POLICY), "application/json", "request refused",
            {"status": 404, "uid": UID, "path": "/unknown"}),
    },
)  # fmt: skip
def test_each_refusal_is_one_line_at_info(app, caplog, path, body, content_type, message, expected):
    caplog.set_level("INFO")
    app.test_client().post(path, data=json.dumps(body), content_type=content_type)
    [record] = [each for each in caplog.records if each.name == "berthmaster.webhook"]
    assert (record.levelname, record.getMessage()) == ("INFO", message)
    assert {key: record.fields[key] for key in expected} == expected
    assert "confidential" not in str(record.fields)


def test_a_burst_of_refusals_is_limited(caplog):
    caplog.set_level("INFO")
    client = create_app(Reviewer(AdmissionSettings(), clock=FakeClock()), body_bytes=4096).test_client()
    for _ in range(700):
        client.post(PATH, data=b"", content_type="text/plain")
    records = [each for each in caplog.records if each.name == "berthmaster.webhook"]
    assert len(records) == 500


def test_an_allowed_review_is_logged_at_debug_only(app, caplog):
    caplog.set_level("INFO")
    app.test_client().post(PATH, data=BODY, content_type="application/json")
    assert [each for each in caplog.records if each.name == "berthmaster.webhook"] == []


PAGE = (Path(__file__).parents[3] / "docs" / "webhook.md").read_text()


def test_the_page_has_every_path():
    assert [path for path in ROUTES if f"`{path}`" not in PAGE] == []


DOCS = Path(__file__).parents[3] / "docs"
POLICIES_PAGE = (DOCS / "policies.md").read_text()
CHECKS_PAGES = "\n".join(each.read_text() for each in sorted(DOCS.glob("policies-*.md")))
CHECKS = re.compile(r"^\| `(.*?)` \| `(.*?)` \| (.*) \|$", re.MULTILINE)
# The defaults set the grace period, so no example can lack it.
NOT_WITHOUT_DEFAULTS = "purgeMode Gracefully requires a grace period"
CHECKING = (karmada_checks, rebalancer, kubeadmiral_policies)


@pytest.mark.parametrize("rule", LISTED)
def test_one_rule_finds_the_first_example_and_no_rule_finds_the_better_one(rule):
    assert [each for each, _ in findings(rule, "found")] == [rule]
    assert findings(rule, "better") == []


def test_the_pages_of_rules_are_those_of_the_code():
    made = pages()
    stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "a rule or a message changed; run make reference"
    assert {*FOLDER.glob("*.md")} == set(made)


def checked():
    """Yield (shape, part of a spec, path, message) of each row of the tables of checks."""
    shape = "PropagationPolicy"
    for part in re.split(r"^##+ ", CHECKS_PAGES, flags=re.MULTILINE)[1:]:
        title = part.partition("\n")[0]
        if title.startswith("KubeAdmiral"):
            shape = KUBEADMIRAL
        elif title.startswith("WorkloadRebalancer"):
            shape = REBALANCER
        for spec, path, message in CHECKS.findall(part):
            yield shape, spec, path, message


@pytest.mark.parametrize(("shape", "spec", "path", "message"), list(checked()))
def test_a_row_is_denied_with_the_path_and_the_message_of_the_page(shape, spec, path, message):
    [error] = lint_example(shape, yaml.safe_load(f"{{{spec}}}")).errors
    assert (error.path, f"{error.fault}; {error.remedy}") == (path, message)


def test_every_check_has_a_row(monkeypatch):
    """A check is a call in a check function that makes a problem. The rows together reach all of these calls."""
    passed = set()

    def recording(*args, **kwargs):
        frame = inspect.currentframe().f_back
        passed.add((frame.f_code.co_filename, frame.f_lineno))
        return FieldProblem(*args, **kwargs)

    for module in CHECKING:
        monkeypatch.setattr(module, "FieldProblem", recording)
    for shape, spec, _, _ in checked():
        lint_example(shape, yaml.safe_load(f"{{{spec}}}"))
    missed = [
        text for module in CHECKING for text, lines in checks_of(module)
        if not any((module.__file__, line) in passed for line in lines)
    ]  # fmt: skip
    assert [text for text in missed if NOT_WITHOUT_DEFAULTS not in text] == []


def checks_of(module):
    """Yield the text and the lines of each call that makes a problem in a check function of a module."""
    source = Path(module.__file__).read_text()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for node in ast.walk(function) if "check_" in function.name else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "FieldProblem":
                yield ast.get_source_segment(source, node), range(node.lineno, (node.end_lineno or 0) + 1)


DEFAULTED = re.findall(r"```yaml\n# (\w+): sent\n(.*?)---\n# stored\n(.*?)```", POLICIES_PAGE, re.DOTALL)


@pytest.mark.parametrize(("shape", "sent", "stored"), DEFAULTED, ids=[each[0] for each in DEFAULTED])
def test_a_policy_gets_the_defaults_of_the_page(shape, sent, stored):
    assert completed(made(shape, yaml.safe_load(sent)))["spec"] == yaml.safe_load(stored)


def leaves(value, path):
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from leaves(below, f"{path}[]")
    else:
        yield path, value


def test_the_table_has_every_default_of_the_examples():
    assert {shape for shape, _, _ in DEFAULTED} == {"PropagationPolicy", KUBEADMIRAL}
    table = POLICIES_PAGE.partition("\n## Defaults\n")[2].partition("\n\nA WorkloadRebalancer")[0]
    for _, sent, stored in DEFAULTED:
        given = dict(leaves(yaml.safe_load(sent), "spec"))
        for path, _ in leaves(yaml.safe_load(stored), "spec"):
            holder = path if not path.startswith("spec.reschedulePolicy") else "spec.reschedulePolicy"
            assert path in given or f"`{holder}`" in table, path


def test_the_catalog_has_every_rule_that_a_module_defines():
    of_karmada = (each.name for each in pkgutil.iter_modules(rules.__path__, "rules."))
    names = (*of_karmada, "kubeadmiral.policies", "rebalancer")
    modules = [importlib.import_module(f"webhook.admission.{name}") for name in names]
    tuples = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    assert {rule.id for each in tuples for rule in each if isinstance(rule, AdmissionRule)} == set(RULES)


VALIDATE, IMPACT = "/validate-propagationpolicy", "/impact-propagationpolicy"
LEDGER_POLICY = {
    **POLICY,
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop"}]},
}
PRIVATE = {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "private"}]}
LEDGER_BROKEN = {**LEDGER_POLICY, "spec": {**LEDGER_POLICY["spec"], "placement": PRIVATE}}
ACCEPTING = {**LEDGER_POLICY, "metadata": {**LEDGER_POLICY["metadata"], "annotations": {ACCEPT_PLAN: "p1"}}}
LARGE = PolicyImpact("p1", 60, 60, 51, 51, 0, 0, 51)


class Source:
    """Every change moves 51 workloads."""

    def ask(self, _change, _left_s):
        return LARGE


class Notes(list):
    """A ledger that keeps what it gets."""

    noted = list.append


def recorded(path, document, **request):
    notes = Notes()
    settings = AdmissionSettings(
        peer_checks=True, levels={"blast-radius": Level.DENY}, blast_radius=BlastRadius(moved=50),
        exempt_users=frozenset({"root"}),
    )  # fmt: skip
    reviewer = Reviewer(settings, impact=Source(), ledger=notes)
    body = json.dumps(admission_review(document, name="web", **request)).encode()
    reviewer.answer(path, "application/json", body)
    return notes


def test_a_refused_object_is_recorded_with_its_fields_and_without_its_values():
    [note] = recorded(VALIDATE, LEDGER_BROKEN)
    assert (note.kind, note.namespace, note.resource_kind, note.name) == ("refusal", "shop", "PropagationPolicy", "web")
    assert note.policy == "PropagationPolicy shop/web"
    assert note.message.startswith("creation by alice: spec.placement: ")
    assert note.details["uid"] == UID
    assert note.details["fields"] == ["spec.placement"]
    assert "private" not in str(note)


@cases(
    ("document", "request_fields", "kind", "gate"),
    {
        "a change above the blast radius": (LEDGER_POLICY, {}, "refusal", "refused"),
        "a plan that the user accepts": (ACCEPTING, {}, "plan-accepted", "accepted"),
        "an exempt user": (LEDGER_POLICY, {"username": "root"}, "exemption", "exempt"),
    },
)
def test_the_gate_is_recorded(document, request_fields, kind, gate):
    [note] = recorded(IMPACT, document, **request_fields)
    assert (note.kind, note.details["gate"], note.details["plan"]) == (kind, gate, "p1")
    assert "51 workloads" in note.message


@cases(
    ("path", "document", "request_fields"),
    {
        "an allowed object": (VALIDATE, LEDGER_POLICY, {}),
        "a dry run": (VALIDATE, LEDGER_BROKEN, {"dryRun": True}),
        "a dry run of an accepted plan": (IMPACT, ACCEPTING, {"dryRun": True}),
        "a malformed object": (VALIDATE, {**LEDGER_POLICY, "spec": {"priority": "x"}}, {}),
    },
)
def test_nothing_is_recorded_of(path, document, request_fields):
    assert recorded(path, document, **request_fields) == []


def test_a_burst_of_refusals_is_limited_and_the_next_record_counts_the_rest():
    clock, notes = FakeClock(), Notes()
    reviewer = Reviewer(AdmissionSettings(peer_checks=True), ledger=notes, clock=clock)
    body = json.dumps(admission_review(LEDGER_BROKEN)).encode()
    for pause_s in (*[0] * 202, 1):
        clock.pass_by(pause_s)
        reviewer.answer(VALIDATE, "application/json", body)
    assert [each.details.get("suppressed") for each in notes] == [*[None] * 200, 2]
