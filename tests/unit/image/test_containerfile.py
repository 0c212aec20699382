"""The Containerfile, checked as text: it is for builds on a base image from a registry."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def instructions():
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Containerfile").read_text())
    stages, current = [], []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, argument = line.partition(" ")
            if name == "FROM":
                stages.append(current)
                current = []
            current.append((name, argument))
    return [*stages, current]


PREAMBLE, BUILD, RESULT = instructions()


def test_the_builder_chooses_the_base_and_both_stages_use_it():
    assert PREAMBLE == [("ARG", "BASE")]
    assert BUILD[0] == ("FROM", "${BASE} AS build")
    assert RESULT[0] == ("FROM", "${BASE}")


def test_all_that_is_run_is_the_script_that_tests_run():
    assert [argument for name, argument in BUILD if name == "RUN"] == [
        "python3 /source/image/install.py /opt/berthmaster"
    ]
    assert not [argument for name, argument in RESULT if name in {"RUN", "ADD"}]


def test_the_result_has_only_what_was_installed():
    assert [argument for name, argument in RESULT if name == "COPY"] == [
        "--from=build /opt/berthmaster /opt/berthmaster"
    ]


def test_it_runs_as_an_unprivileged_user():
    [user] = [argument for name, argument in RESULT if name == "USER"]
    assert re.fullmatch(r"[1-9]\d{4,}:[1-9]\d{4,}", user), "a number, so that runAsNonRoot can be checked"


def test_it_is_the_command():
    assert dict(RESULT)["ENTRYPOINT"] == '["/opt/berthmaster/bin/berthmaster"]'


def test_what_is_copied_is_there_and_is_sent():
    sent = re.findall(r"^!(.+)$", (ROOT / ".containerignore").read_text(), re.MULTILINE)
    sources = [each for name, argument in BUILD if name == "COPY" for each in argument.split()[:-1]]
    derived = (ROOT / "image" / "plugins.Containerfile").read_text()
    sources += [
        each for each in re.findall(r"^COPY ([^-\s]\S*) ", derived, re.MULTILINE) if not each.startswith("image/")
    ]
    assert all((ROOT / each).exists() for each in sources)
    assert sorted(sources) == sorted(sent)


def test_the_user_is_the_one_that_the_chart_says():
    [user] = [argument for name, argument in RESULT if name == "USER"]
    values = (ROOT / "charts" / "berthmaster" / "values.yaml").read_text()
    assert f"runAsUser: {user.partition(':')[0]}" in values
