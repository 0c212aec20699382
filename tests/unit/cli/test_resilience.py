"""`berthmaster resilience`: tables, data, the check, and the heat map."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner
from tables import cases

from berthmaster.simulation.failures import FailureDomain, Impact
from berthmaster.views.heat_map import MAX_ROWS, heat_map
from berthmaster_cli.main import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "karmada"
SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["resilience", "-f", str(EXAMPLES), *arguments], prog_name="berthmaster")
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout


def test_the_output_of_the_examples(golden):
    golden("failures-of-the-examples.txt", run("--failover=on", "--by", "cluster", "--by", "region"))


@cases(
    ("arguments", "message"),
    {
        "an unknown domain": (["--by", "planet"], "planet"),
        "an option of simulate": (["--server", "http://127.0.0.1:9"], "No such option"),
        "a folder that does not exist": (["--heat-map", "/nonexistent/x.svg"], "cannot be written"),
    },
)
def test_wrong_usage(arguments, message):
    result = CliRunner().invoke(main, ["resilience", "-f", str(EXAMPLES), *arguments])
    assert message in result.output + str(result.exception)


@pytest.mark.parametrize(("of", "jobs"), [(1, "2"), (3, "1"), (7, "2")])
def test_shards_have_the_answer_of_one_process(of, jobs, tmp_path):
    question = ["--failover=on", "--by", "cluster", "--by", "region"]
    files = []
    for number in range(of):
        file = str(tmp_path / f"{number}.json")
        run(*question, "--shard", f"{number}/{of}", "--jobs", jobs, "--shard-file", file)
        files += ["--merge", file]
    for output in ("json", "wide", "name"):
        assert run(*files, "-o", output) == run(*question, "-o", output)
    assert run(*files, "--check", "-o", "name", code=1)


@cases(
    ("shards", "arguments", "message"),
    {
        "a missing shard": (["0/2"], ["--merge", "0"], "shards are missing: 1/2"),
        "a shard twice": (["0/2", "0/2"], ["--merge", "0", "--merge", "1"], "is there twice"),
        "other shards": (["0/2", "1/3"], ["--merge", "0", "--merge", "1"], "of another state"),
        "no file": ([], ["--merge", "0"], "cannot be read"),
        "a number that is too large": ([], ["--shard", "2/2", "--shard-file", "0"], "'2/2' is no shard"),
        "a shard without a file": ([], ["--shard", "0/2"], "need each other"),
        "both": ([], ["--shard", "0/2", "--merge", "0"], "exclude each other"),
    },
)
def test_shards_that_cannot_be_merged(shards, arguments, message, tmp_path):
    for number, shard in enumerate(shards):
        run("--shard", shard, "--shard-file", str(tmp_path / str(number)))
    given = [str(tmp_path / each) if each in {"0", "1"} else each for each in arguments]
    result = CliRunner().invoke(main, ["resilience", "-f", str(EXAMPLES), *given])
    assert message in str(result.exception)


def test_a_limit_changes_no_total():
    every, first = run().splitlines()[-1], run("--limit", "1").splitlines()[-1]
    assert first.startswith(every)
    assert first.removeprefix(every).endswith(" less severe failures are not shown")


def test_a_federation_has_nothing_to_rank():
    result = CliRunner().invoke(main, ["resilience", "-f", str(EXAMPLES.with_name("kubeadmiral"))])
    assert "answered for Karmada only" in str(result.exception)


def test_the_heat_map_is_one_picture_without_references(tmp_path):
    path = tmp_path / "map.svg"
    run("--failover=on", "--heat-map", str(path))
    text = path.read_text()
    root = ET.fromstring(text)  # noqa: S314 - written by the command
    assert root.tag == f"{SVG}svg"
    assert not any(word in text for word in ("href", "<script", "url(", "@import"))
    titles = [each.text for each in root.iter(f"{SVG}title")]
    assert len(titles) == 10
    assert "cluster member1: member2 gets 10 replicas" in titles
    assert "cluster member1: member1 is lost" in titles


def impact(name, arriving=None, **more):
    fields = {"nowhere": [], "short": [], "staying": [], "moved": 0, "replicas": 0, "overcommitted": {}, **more}
    return Impact(domain=FailureDomain.CLUSTER, name=name, clusters=(name,), arriving=arriving or {}, **fields)


@pytest.mark.parametrize("name", ["<b>&\"'", "\x1b[31m", "\ud800", "x" * 5000], ids=ascii)
def test_any_name_can_be_in_a_heat_map(name):
    text = heat_map([impact(name, {"other": 3}), impact("other", overcommitted={name: ["cpu"]})], [name, "other"])
    root = ET.fromstring(text)  # noqa: S314 - written by the command
    width = float(root.get("width"))
    assert width < 2000
    assert all(character.isprintable() or character == "\n" for character in text)


def test_a_heat_map_says_what_it_leaves_out():
    text = heat_map([impact(f"c{number}", {"d": 1}) for number in range(MAX_ROWS + 3)], ["d", "e"])
    assert "3 less severe failures are not shown" in text
    assert text.count("<title>") == MAX_ROWS
    text = heat_map([impact("c1", {"d": 1})], ["d", "e"], limits=(1, 1), failures=40)
    assert "39 less severe failures are not shown; 1 cluster is not shown" in text


def test_a_heat_map_in_a_page_has_no_style_that_a_content_security_policy_refuses():
    impacts = [impact("a", {"b": 3}, overcommitted={"b": ["cpu"]}), impact("b", nowhere=["x"])]
    alone, inside = heat_map(impacts, ["a", "b"]), heat_map(impacts, ["a", "b"], embedded=True)
    assert "prefers-color-scheme: dark" in alone
    assert "style" not in inside
    assert 'role="img"' in inside
    filled = [each for each in ET.fromstring(inside).iter() if each.tag in {f"{SVG}rect", f"{SVG}text"}]  # noqa: S314
    assert all(each.get("fill") and each.get("class") for each in filled)


def test_a_lost_cluster_has_a_sign_besides_its_colour():
    assert heat_map([impact("a")], ["a", "b"]).count("×") == 2  # in the row and in the legend


def test_an_empty_heat_map_is_valid():
    assert ET.fromstring(heat_map([], [])).tag == f"{SVG}svg"  # noqa: S314 - written by the command
