"""``docs/policies.md`` and ``docs/rules`` describe every default, check and rule, and their examples are correct."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml
from policy_pages import KUBEADMIRAL, REBALANCER, completed, lint_example, made
from rule_pages import FOLDER, LISTED, RULES, findings, pages

from webhook.admission import kubeadmiral, rebalancer
from webhook.admission.karmada import checks
from webhook.admission.outcome import FieldProblem
from webhook.admission.rules.rule import AdmissionRule

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
CHECKS = re.compile(r"^\| `(.*?)` \| `(.*?)` \| (.*) \|$", re.MULTILINE)
# The defaults set the grace period, so no example can lack it.
NOT_WITHOUT_DEFAULTS = "purgeMode Gracefully requires a grace period"
CHECKING = (checks, rebalancer, kubeadmiral)


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
    """Yield (shape, part of a spec, path, message) of each row of the tables under "Checks"."""
    section = PAGE.partition("\n## Checks\n")[2].partition("\n## ")[0]
    shape = "PropagationPolicy"
    for part in section.split("\n### ")[1:]:
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


DEFAULTED = re.findall(r"```yaml\n# (\w+): sent\n(.*?)---\n# stored\n(.*?)```", PAGE, re.DOTALL)


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
    table = PAGE.partition("\n## Defaults\n")[2].partition("\n\nA WorkloadRebalancer")[0]
    for _, sent, stored in DEFAULTED:
        given = dict(leaves(yaml.safe_load(sent), "spec"))
        for path, _ in leaves(yaml.safe_load(stored), "spec"):
            holder = path if not path.startswith("spec.reschedulePolicy") else "spec.reschedulePolicy"
            assert path in given or f"`{holder}`" in table, path


def test_the_catalog_has_every_rule_that_a_module_defines():
    names = (
        *("rules.affinities", "rules.division", "rules.selection", "rules.size", "rules.spreading"),
        *("rules.unsupported", "rules.moves"),
        *("kubeadmiral", "rebalancer"),
    )
    modules = [importlib.import_module(f"webhook.admission.{name}") for name in names]
    tuples = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    assert {rule.id for rules in tuples for rule in rules if isinstance(rule, AdmissionRule)} == set(RULES)
