"""Every default, check and rule of ``docs/policies.md`` is tried, and none is missing there."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest
import yaml
from policy_pages import KUBEADMIRAL, REBALANCER, completed, lint_example, made, update_warnings

from webhook.admission.karmada import checks, placement_checks, rebalancer
from webhook.admission.kubeadmiral import checks as kubeadmiral_checks
from webhook.admission.problem import Problem
from webhook.admission.rules.catalog import ALL_RULES, KUBEADMIRAL_RULES, REBALANCER_RULES

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
RULES = {rule.id: rule for rule in ALL_RULES}
SHAPES = {
    **{rule.id: KUBEADMIRAL for rule in KUBEADMIRAL_RULES},
    **{rule.id: REBALANCER for rule in REBALANCER_RULES},
}
SECTION = re.compile(r"^### ([a-z-]+)\n\n(.*?)\n\n```yaml\n(.*?)```\n\n> (.*?)\n", re.MULTILINE | re.DOTALL)
SECTIONS = {match[1]: match.groups()[1:] for match in SECTION.finditer(PAGE)}
REFUSED = re.compile(r"^\| `(.*?)` \| `(.*?)` \| (.*) \|$", re.MULTILINE)
# Only a policy that passed by the defaults can lack it.
NOT_WITHOUT_DEFAULTS = "purgeMode Gracefully needs a grace period"
# An example of the sections on rules.
RULE_ONLY = "lives in a namespace is not known"
CHECKING = (checks, placement_checks, rebalancer, kubeadmiral_checks)


def labelled(block):
    """The documents of a block by the last comment before each, and the kind that a comment names."""
    documents = {}
    for text in block.split("---\n"):
        *_, label = re.findall(r"^# (?:\w+: )?(\w+)$", text, re.MULTILINE)
        documents[label] = yaml.safe_load(text)
    kind = re.search(r"^# kind: (\w+)$", block, re.MULTILINE)
    return kind[1] if kind else None, documents


def findings(shape, spec, stored):
    if stored is not None:
        return update_warnings(shape, stored, spec)
    found = lint_example(shape, spec)
    return [*found.errors, *found.warnings]


def test_the_page_has_every_rule_in_the_catalogs_order():
    assert list(SECTIONS) == list(RULES)


@pytest.mark.parametrize("rule", SECTIONS)
def test_exactly_that_rule_finds_fault_with_the_example_and_none_with_the_better_one(rule):
    _, block, told = SECTIONS[rule]
    kind, documents = labelled(block)
    shape = SHAPES.get(rule) or kind or "PropagationPolicy"
    [found] = findings(shape, documents["found"], documents.get("stored"))
    assert found.rule == rule
    assert f"{found.path}: {found.detail}" == told
    assert findings(shape, documents["better"], documents.get("stored")) == []


@pytest.mark.parametrize("rule", SECTIONS)
def test_level_and_summary_are_the_catalogs(rule):
    standalone = RULES[rule].standalone
    level = RULES[rule].default.value + (f"; standalone: {standalone.value}" if standalone is not None else "")
    assert SECTIONS[rule][0] == f"{level}. {RULES[rule].summary}"


def refused():
    """(shape, part of a spec, path, words) of each row of the tables under "Refused"."""
    section = PAGE.partition("\n## Refused\n")[2].partition("\n## ")[0]
    shape = "PropagationPolicy"
    for part in section.split("\n### ")[1:]:
        title = part.partition("\n")[0]
        if title.startswith("KubeAdmiral"):
            shape = KUBEADMIRAL
        elif title.startswith("WorkloadRebalancer"):
            shape = REBALANCER
        for spec, path, words in REFUSED.findall(part):
            yield shape, spec, path, words


@pytest.mark.parametrize(("shape", "spec", "path", "words"), list(refused()))
def test_a_row_is_refused_where_and_as_the_page_says(shape, spec, path, words):
    [error] = lint_example(shape, yaml.safe_load(f"{{{spec}}}")).errors
    assert (error.path, f"{error.fault}; {error.remedy}") == (path, words)


def test_every_check_has_a_row(monkeypatch):
    """A check is a place where a problem is made: the rows together pass all of them."""
    passed = set()

    def noting(*args, **kwargs):
        frame = sys._getframe(1)
        passed.add((frame.f_code.co_filename, frame.f_lineno))
        return Problem(*args, **kwargs)

    for module in CHECKING:
        monkeypatch.setattr(module, "Problem", noting)
    for shape, spec, _, _ in refused():
        lint_example(shape, yaml.safe_load(f"{{{spec}}}"))
    missed = [
        text for module in CHECKING for text, lines in checks_of(module)
        if not any((module.__file__, line) in passed for line in lines)
    ]  # fmt: skip
    assert [text for text in missed if NOT_WITHOUT_DEFAULTS not in text and RULE_ONLY not in text] == []


def checks_of(module):
    """The text and lines of each place of a module where a problem is made."""
    source = Path(module.__file__).read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
            yield ast.get_source_segment(source, node), range(node.lineno, (node.end_lineno or 0) + 1)


DEFAULTED = re.findall(r"```yaml\n# (\w+): sent\n(.*?)---\n# stored\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("shape", "sent", "stored"), DEFAULTED, ids=[each[0] for each in DEFAULTED])
def test_a_policy_is_completed_as_the_page_says(shape, sent, stored):
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


def test_every_default_of_the_examples_is_in_the_table():
    assert {shape for shape, _, _ in DEFAULTED} == {"PropagationPolicy", KUBEADMIRAL}
    table = PAGE.partition("\n## Defaults\n")[2].partition("\n\nA WorkloadRebalancer")[0]
    for _, sent, stored in DEFAULTED:
        given = dict(leaves(yaml.safe_load(sent), "spec"))
        for path, _ in leaves(yaml.safe_load(stored), "spec"):
            holder = path if not path.startswith("spec.reschedulePolicy") else "spec.reschedulePolicy"
            assert path in given or f"`{holder}`" in table, path


def test_the_catalog_is_what_the_modules_define():
    modules = ("affinities", "division", "kubeadmiral", "selection", "spreading", "tolerations")
    defined = {rule.id for name in modules for rule in importlib.import_module(f"webhook.admission.rules.{name}").RULES}
    assert defined | {rule.id for rule in REBALANCER_RULES} == set(RULES)
