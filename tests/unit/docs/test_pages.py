"""What the pages name is there: links and their anchors, options, metrics, targets of make, files."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from page_lines import whole_lines
from sources import METRICS, SERVICES, SOURCES

from berthmaster.kube.events import BURST, MAX_WAITING
from berthmaster.kube.informer import MAX_IN_NAMESPACE
from berthmaster.kube.listing import MAX_OBJECT_BYTES, MAX_OBJECTS
from berthmaster.kube.responses import MAX_MESSAGE_BYTES
from berthmaster_cli.main import COMMANDS, main
from webhook.admission import wire
from webhook.admission.catalog import RULE_IDS

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
# What is said of Karmada's own metric, which ours goes by as well.
METRIC = re.compile(
    r"\bberthmaster_(?:webhook|extender|console|controllers|scheduler|certificate)_[a-z0-9_]+\b|\bpolicy_preemption_total\b"
)
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Commands of others: their options are theirs.
OTHERS = (
    r"(?:kubectl|podman|helm|openssl|skopeo|cosign|cyclonedx-py|pytest|go|git|python|pip|make|curl|liqoctl|etcdutl)\b"
)
# And what pages name of them by itself.
FOREIGN = {
    "--enable-no-execute-taint-eviction",
    "--set",
    "--server-side",
    "--reproducible",
    "--dry-run",
    "--load-restrictor",
    "--update-golden",
    "--pdb",
    "--values",
    "--output-dir",
    "--junitxml",
}


def options_of(command):
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from options_of(command.get_command(click.Context(command), name))


EVERY_OPTION = {"--help", *options_of(main)}


def of_ours(text):
    """A page without the commands of others."""
    text = re.sub(rf"^(?:\$ |    )?{OTHERS}(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)
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


def default_of(command, option):
    [found] = [each for each in command.params if option in each.opts]
    value = found.default
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


PAGES_OF_COMMANDS = {
    "docs/controllers.md": main.get_command(click.Context(main), "controllers"),
    "docs/certificates.md": main.get_command(click.Context(main), "certs").commands["run"],
}


@pytest.mark.parametrize("page", PAGES_OF_COMMANDS)
def test_defaults_in_tables_are_the_commands(page):
    """Rows with options in the first cell and as many defaults in the second."""
    compared = 0
    row = re.compile(r"^\| ((?:`--[a-z-]+`(?:, | of `run`)?)+) \| ([^|]+) \|", re.MULTILINE)
    for options, defaults in row.findall(TEXTS[page]):
        names = OPTION.findall(options)
        values = [each.strip("` ") for each in defaults.split(",")]
        for name, value in zip(names, values, strict=False):
            # Words for switches and for what has no default.
            if value not in {"none", "on", "off", "the pod's own"} or name == "--failover":
                assert value == default_of(PAGES_OF_COMMANDS[page], name), name
                compared += 1
    assert compared >= 5


BOUNDS = [
    ("webhook", "--max-body-bytes", "`--max-body-bytes` of the webhook, 7 MiB", 7 * 2**20),
    ("webhook", "--request-timeout-s", "webhook 2.5", 2.5),
    ("extender", "--max-body-bytes", "`--max-body-bytes` of the extender, 32 MiB", 32 * 2**20),
    ("extender", "--request-timeout-s", "extender 5", 5),
    ("controllers", "--kube-api-qps", "`--kube-api-qps` 1000", 1000),
    ("controllers", "--kube-api-burst", "`--kube-api-burst` 2000", 2000),
]


@pytest.mark.parametrize(("name", "option", "words", "value"), BOUNDS, ids=[" ".join(each[:2]) for each in BOUNDS])
def test_a_bound_is_the_commands_default(name, option, words, value):
    command = main.get_command(click.Context(main), name)
    [found] = [each for each in command.params if option in each.opts]
    assert found.default == value
    assert words in TEXTS["docs/security-limits.md"]


CONSTANTS = [
    (MAX_MESSAGE_BYTES, 64 * 2**20, "| a page of objects that an API server sends | 64 MiB |"),
    (MAX_OBJECT_BYTES, 4 * 2**20, "| one object that an API server sends | 4 MiB, 100 levels |"),
    (MAX_IN_NAMESPACE, 262_144, "| listed objects of one kind | 262,144 in a namespace, 1,048,576 in all |"),
    (MAX_OBJECTS, 1_048_576, "1,048,576 in all"),
    (MAX_WAITING, 16_384, "16,384; 25 at once"),
    (BURST, 25, "16,384; 25 at once"),
    (wire.MAX_WARNINGS, 24, "24 warnings of 256 characters"),
    (wire.MAX_DENIALS, 64, "64 denials, 16,384 characters"),
    (wire.MAX_MESSAGE_LENGTH, 16_384, "64 denials, 16,384 characters"),
]


@pytest.mark.parametrize(("constant", "value", "words"), CONSTANTS, ids=[each[2] for each in CONSTANTS])
def test_a_bound_is_the_codes(constant, value, words):
    assert constant == value
    assert words in TEXTS["docs/security-limits.md"]


@pytest.mark.parametrize("page", TEXTS)
def test_every_metric_that_is_named_exists(page):
    for name in METRIC.findall(TEXTS[page]):
        # The client library adds the first; histograms have the others.
        stem = re.sub(r"_(total|bucket|sum|count)$", "", name)
        assert {name, stem, f"{stem}_total"} & METRICS, name


def test_every_metric_that_exists_is_on_some_page():
    named = set(METRIC.findall("\n".join(TEXTS.values())))
    of_each = re.findall(r"\bberthmaster_SERVICE_([a-z_]+)", TEXTS["docs/serving.md"])
    named |= {f"berthmaster_{service}_{end}" for service in SERVICES for end in of_each}
    metrics = {name for name in METRICS if METRIC.fullmatch(name) or METRIC.fullmatch(f"{name}_total")}
    assert len(metrics) > 30
    assert {name for name in metrics if not {name, f"{name}_total"} & named} == set()


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_that_is_named_exists(page):
    known = {*COMMANDS, "completion"}
    blocks = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^(?:\$ )?berthmaster ([a-z-]+)", blocks, re.MULTILINE)
    assert {each for each in commands if not each.startswith("-")} <= known


@pytest.mark.parametrize("page", TEXTS)
def test_every_target_of_make_exists(page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", TEXTS[page], re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", TEXTS)
def test_every_file_of_the_repository_that_is_named_exists(page):
    folders = "berthmaster|webhook|extender|certs|berthmaster_cli|tests|charts|image|requirements"
    for name in re.findall(rf"`((?:{folders})/[\w/.-]+)`", TEXTS[page]):
        near = [ROOT / name, ROOT / "berthmaster" / "scheduling" / name, ROOT / "tests" / name]
        assert any(each.exists() for each in near), name


def is_command(line, language):
    return language == "sh" or (language == "console" and line.lstrip().startswith("$ "))


@pytest.mark.parametrize("page", TEXTS)
def test_a_command_fits_into_a_window(page):
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", TEXTS[page], re.MULTILINE | re.DOTALL)
    lines = [line for language, text in blocks for line in text.splitlines() if is_command(line, language)]
    assert [line for line in lines if len(line) > 100] == []


def runnable():
    """The commands of pages that need nothing but the repository."""
    for page, text in TEXTS.items():
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in whole_lines(block).splitlines():
                if re.match(r"berthmaster (lint|simulate|explain|plan) .*-f examples", line) and "--server" not in line:
                    yield pytest.param(line, id=f"{page}: {line}")


@pytest.mark.parametrize("line", list(runnable()))
def test_a_command_about_the_examples_runs(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = shlex.split(line, comments=True)[1:]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


def test_the_index_and_the_menu_have_every_page():
    """``make docs`` fails for a page without a place in the menu, too; this is earlier."""
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    listed = {each for each in pages - {"README.md"} if not each.startswith(("rules/", "reference/"))}
    menu = set(re.findall(r"^ +- ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert menu == listed | {"README.md", "rules/README.md"}
    assert {each for each in listed if f"({each})" not in TEXTS["docs/README.md"]} == set()
    assert len(TEXTS["README.md"].splitlines()) <= 115


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_is_short_enough_to_read(page):
    """A page of these limits is at most about 6,000 px high. A page that is made may be longer."""
    assert len(TEXTS[page].splitlines()) <= 400
    if not page.startswith("docs/reference/"):
        assert len(TEXTS[page].split()) <= 1950, "split it by task"


def test_the_readme_has_every_command():
    assert [name for name in COMMANDS if f"`berthmaster {name}" not in TEXTS["README.md"]] == []


def test_every_annotation_and_label_of_ours_is_documented():
    reporters = {"berthmaster.io/controllers", "berthmaster.io/certs", "berthmaster.io/webhook"}
    keys = set(re.findall(r'"((?:[a-z]+\.)?berthmaster\.io/[a-z-]+)"', SOURCES)) - reporters
    section = TEXTS["docs/policies.md"].partition("\n## Annotations and labels of Berthmaster\n")[2]
    assert set(re.findall(r"`((?:[a-z]+\.)?berthmaster\.io/[a-z-]+)`", section)) == keys


def test_pages_state_the_right_number_of_rules():
    numbers = {int(number) for text in TEXTS.values() for number in re.findall(r"\b(\d+) rules\b", text)}
    assert numbers == {len(RULE_IDS)}


def test_the_site_keeps_the_pages_of_earlier_versions(tmp_path, monkeypatch):
    """``make docs-version`` runs in a repository of its own. Its branch is what a web server serves."""
    pytest.importorskip("mike", reason="make docs installs it")
    for each in ("docs", "packaging", "requirements", "pyproject.toml", "berthmaster"):
        (tmp_path / each).symlink_to(ROOT / each)
    for each in ("Makefile", "mkdocs.yml"):
        (tmp_path / each).write_text((ROOT / each).read_text())

    def run(*words):
        done = subprocess.run(  # noqa: S603 - commands of this test
            words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git", "init", "--quiet")
    for key, value in (("user.name", "docs"), ("user.email", "docs@example.org"), ("commit.gpgsign", "false")):
        run("git", "config", key, value)
    run("git", "commit", "--quiet", "--allow-empty", "--message=empty")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "index.md").write_text("# Earlier\n")
    (tmp_path / "earlier.yml").write_text("site_name: Earlier\ndocs_dir: earlier\n")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{sys.prefix}/bin", prepend=":")
        run("mike", "--quiet", "deploy", "--config-file=earlier.yml", "1.0.0", "latest")
    said = run("make", "--no-print-directory", "docs-version", "VERSION=1.1.0", f"VENV={sys.prefix}")
    assert said == "", "a warning"
    files = {*run("git", "ls-tree", "-r", "--name-only", "gh-pages").splitlines()}
    assert {"1.0.0/index.html", "1.1.0/adopt/index.html", "1.1.0/search/search_index.json", "index.html"} <= files
    versions = json.loads(run("git", "show", "gh-pages:versions.json"))
    assert [(each["version"], each["aliases"]) for each in versions] == [("1.1.0", ["latest"]), ("1.0.0", [])]
    assert "latest/" in run("git", "show", "gh-pages:index.html")
    assert '"provider": "mike"' in run("git", "show", "gh-pages:1.1.0/index.html"), "the switch in the header"
