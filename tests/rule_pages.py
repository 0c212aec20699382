"""The pages of docs/rules: one for each rule, with its example. Writes them as a script.

The example and the remarks of a page are written by hand. Heading, level and message are made from the code.
"""

import json
import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from click.testing import CliRunner
from policy_pages import KUBEADMIRAL, REBALANCER, lint_example, update_warnings
from tables import with_tables

from berthmaster_cli.lint.command import command
from berthmaster_cli.lint.listed_rules import LINT_RULE_IDS, ListedRule, listed_rules
from webhook.admission.catalog import ALL_RULES
from webhook.admission.kubeadmiral.policies import KUBEADMIRAL_RULES
from webhook.admission.rebalancer import REBALANCER_RULES
from webhook.admission.settings import AdmissionSettings

FOLDER: Final = Path(__file__).parents[1] / "docs" / "rules"
RULES: Final = {each.id: each for each in ALL_RULES}
LISTED: Final = {each.id: each for each in listed_rules(AdmissionSettings(peer_checks=True))}
_MADE: Final = "<!-- `make reference` makes all but the example and the remarks -->"
_SHAPES: Final = {
    **{rule.id: KUBEADMIRAL for rule in KUBEADMIRAL_RULES},
    **{rule.id: REBALANCER for rule in REBALANCER_RULES},
}
_ARTICLES: Final = {KUBEADMIRAL: "KubeAdmiral's PropagationPolicy in mode `Divide`"}
_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


class RulePage(NamedTuple):
    """The parts of a page that are written by hand: its examples, and the remarks after the message."""

    examples: tuple[str, ...]
    remarks: str


def read(rule: str) -> RulePage:
    text = (FOLDER / f"{rule}.md").read_text()
    _, _, after = text.rpartition("\n> ")
    remarks, _, _ = after.partition("\n")[2].rpartition("\nLevel: ")
    return RulePage(tuple(_BLOCK.findall(text)), remarks.strip("\n"))


def subject(rule: str) -> str:
    """Return what the example of a rule is a part of: a kind, or KubeAdmiral for its policy."""
    kind = re.search(r"^# kind: (\w+)$", read(rule).examples[0], re.MULTILINE)
    return _SHAPES.get(rule) or (kind[1] if kind else "PropagationPolicy")


def findings(rule: str, label: str) -> list[tuple[str, str]]:
    """Return (rule, message) of each problem of an example: ``found`` or ``better``."""
    examples = read(rule).examples
    if rule not in RULES:
        return _linted(examples[("found", "better").index(label)])
    shape = subject(rule)
    documents = {}
    for text in examples[0].split("---\n"):
        *_, name = re.findall(r"^# (\w+)$", text, re.MULTILINE)
        documents[name] = yaml.safe_load(text)
    if "stored" in documents:
        found = update_warnings(shape, documents["stored"], documents[label])
    else:
        linted = lint_example(shape, documents[label])
        found = [*linted.errors, *linted.warnings]
    return [(each.rule, f"{each.path}: {each.detail}") for each in found]


def _linted(manifests: str) -> list[tuple[str, str]]:
    """Return the findings of ``berthmaster lint`` about manifests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(manifests)
        report = json.loads(CliRunner().invoke(command, [str(path), "-o", "json"]).stdout.replace(f"{folder}/", ""))
    texts = [": ".join(filter(None, (each["path"], each["message"]))) for each in report["findings"]]
    return [(each["rule"], text) for each, text in zip(report["findings"], texts, strict=True)]


def level(rule: str) -> str:
    if rule not in RULES:
        return LISTED[rule].level
    standalone = RULES[rule].standalone
    return RULES[rule].default.value + (f"; standalone: {standalone.value}" if standalone is not None else "")


def pages() -> dict[Path, str]:
    made = {FOLDER / "README.md": _index()}
    return {**made, **{FOLDER / f"{rule}.md": "\n".join(_page(rule, LISTED[rule])) for rule in LISTED}}


def _page(rule: str, listed: ListedRule) -> Iterator[str]:
    stored = read(rule)
    yield from (f"# {rule}", "", _MADE, "", *_wrapped(f"{level(rule)}. {listed.summary}"))
    if rule in RULES:
        whole = _ARTICLES.get(subject(rule), f"a {subject(rule)}")
        yield from (f"A part of the `spec` of {whole}, or its `metadata`:", "")
    for example in stored.examples:
        yield from ("```yaml", *example.splitlines(), "```", "")
    message = findings(rule, "found")[0][1]
    yield from (*(f"> {line}" for line in message.splitlines()), "")
    if stored.remarks:
        yield from (stored.remarks, "")
    programs = "lint" if rule in LINT_RULE_IDS else "lint` and `berthmaster webhook"
    change = f"`--rule {rule}=deny|warn|off` of `berthmaster {programs}`." if listed.configurable else "cannot change."
    yield from (f"Level: {change}", "[All rules](README.md).", "")


def _index() -> str:
    """Return the page of all rules. Its text is written by hand."""
    rows = {rule: f"| [{rule}]({rule}.md) | {level(rule)} | {each.summary} |" for rule, each in LISTED.items()}
    parts = {"rules": [*RULES], "rules of lint": [rule for rule in rows if rule not in RULES]}
    head = ["", "| Rule | Level | Finds |", "|---|---|---|"]
    tables = ((name, [*head, *(rows[rule] for rule in found), ""]) for name, found in parts.items())
    return with_tables((FOLDER / "README.md").read_text(), "reference", tables)


def _wrapped(text: str) -> Iterator[str]:
    yield from (*textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False), "")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
