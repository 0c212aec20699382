"""What the pages name is there: links and their anchors, options, metrics, targets of make, files."""

import re
import shlex
from pathlib import Path

import click
import pytest

from cli.main import _COMMANDS, main

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
SOURCES = "\n".join(
    path.read_text()
    for part in ("webhook", "extender", "certs", "cli", "fleet")
    for path in sorted((ROOT / part).rglob("*.py"))
)
# What is said of Karmada's own metric, which ours goes by as well.
METRIC = re.compile(r"\bberthmaster_(?:webhook|extender|controllers|scheduler|certificate)_[a-z0-9_]+\b|\bpolicy_preemption_total\b")
DEFINED = set(re.findall(r'"((?:berthmaster|policy)_[a-z0-9_]+)"', SOURCES))
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Commands of others: their options are theirs.
OTHERS = r"(?:kubectl|helm|openssl|skopeo|cosign|cyclonedx-py|pytest|go|git|python|pip|make|curl|liqoctl)\b"
# And what pages name of them by itself.
FOREIGN = {"--set", "--server-side", "--reproducible", "--dry-run", "--update-golden", "--pdb", "--values"}


def options_of(command):
    """Each option of a command and of those below it, in all spellings."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from options_of(command.get_command(click.Context(command), name))


EVERY_OPTION = {"--help", *options_of(main)}


def of_ours(text):
    """A page without the commands of others."""
    text = re.sub(rf"^(?:\$ |    )?{OTHERS}.*?[^\\]$", "", text, flags=re.MULTILINE)
    return re.sub(rf"`{OTHERS}[^`]*`", "", text)


def slug(heading):
    """A heading's anchor, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    return {slug(line.lstrip("#")) for line in without_code(path.read_text()).splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(without_code(TEXTS[page])):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


@pytest.mark.parametrize("page", TEXTS)
def test_every_option_that_is_named_exists(page):
    named = set(OPTION.findall(of_ours(TEXTS[page])))
    assert named - EVERY_OPTION - FOREIGN == set()


@pytest.mark.parametrize("page", TEXTS)
def test_options_of_a_command_are_that_commands(page):
    for line in re.findall(r"(?:^|`|\$ )berthmaster ([a-z][^`\n]*)", TEXTS[page], re.MULTILINE):
        name, *rest = line.split()
        command = main.get_command(click.Context(main), name)
        # The rest of a line may be prose about a command that is to come, or the end of another one's line.
        if command is not None:
            known = {"--help", *options_of(command)}
            named = {option for word in rest for option in OPTION.findall(word)}
            assert named <= known, line


@pytest.mark.parametrize("page", TEXTS)
def test_every_metric_that_is_named_exists(page):
    for name in METRIC.findall(TEXTS[page]):
        # The client library adds the first; histograms have the others.
        stem = re.sub(r"_(total|bucket|sum|count)$", "", name)
        assert {name, stem, f"{stem}_total"} & DEFINED, name


def test_every_metric_that_exists_is_on_some_page():
    told = set(METRIC.findall("\n".join(TEXTS.values())))
    metrics = {name for name in DEFINED if METRIC.fullmatch(name) or METRIC.fullmatch(f"{name}_total")}
    assert len(metrics) > 30
    assert {name for name in metrics if not {name, f"{name}_total"} & told} == set()


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_that_is_named_exists(page):
    known = {*_COMMANDS, "completion"}
    blocks = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^(?:\$ )?berthmaster ([a-z-]+)", blocks, re.MULTILINE)
    assert {each for each in commands if not each.startswith("-")} <= known


@pytest.mark.parametrize("page", TEXTS)
def test_every_target_of_make_exists(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", TEXTS[page], re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", TEXTS)
def test_every_file_of_the_repository_that_is_named_exists(page):
    for name in re.findall(r"`((?:fleet|webhook|extender|certs|cli|tests|charts|image|requirements)/[\w/.-]+)`", TEXTS[page]):
        near = [ROOT / name, ROOT / "extender" / "scheduling" / name, ROOT / "tests" / name]
        assert any(each.exists() for each in near), name


def runnable():
    """The commands of pages that need nothing but the repository."""
    for page, text in TEXTS.items():
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                if re.match(r"berthmaster (lint|simulate|explain) ", line) and "examples" in line and "--server" not in line:
                    yield pytest.param(line, id=f"{page}: {line}")


@pytest.mark.parametrize("line", list(runnable()))
def test_a_command_about_the_examples_runs(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = shlex.split(line, comments=True)[1:]
    from click.testing import CliRunner  # noqa: PLC0415 - the one test that runs commands

    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


def test_the_readmes_index_has_every_page():
    readme = TEXTS["README.md"]
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in readme]
    assert missing == []
    assert len(readme.splitlines()) <= 110


def test_the_readme_has_every_command():
    assert [name for name in _COMMANDS if f"`berthmaster {name}" not in TEXTS["README.md"]] == []
