"""The commands of the pages: the parser of `berthmaster` accepts each one, and kubectl's have the context."""

import click
import pytest
from console_answers import move_row
from console_fleet import HOSTILE
from tables import cases

from berthmaster.model.kind_names import BUILT_IN_NAMES
from berthmaster.native_api.problems import Damage, FleetProblem, Subject
from berthmaster.views.move_rows import RowState
from berthmaster_cli.main import main
from console.commands import CommandContexts, CommandWriter, NamedWorkload
from console.pages.history import TRIGGERS

WEB = NamedWorkload("shop", "Deployment", "web", "web-deployment", ["member1"])
VIEWER = NamedWorkload("", "ClusterRole", "viewer", "viewer-clusterrole")
WRITER = CommandWriter(CommandContexts("fleet", "kind-{cluster}"))
PROBLEM = {
    "cluster": "member1", "policy": "PropagationPolicy shop/web", "namespace": "shop",
    "workload_kind": "Deployment", "name": "web", "binding": "web-deployment",
}  # fmt: skip
ALL = {
    "a workload": WRITER.of_workload(WEB),
    "a workload that moves, and why not": WRITER.of_workload(WEB, cluster="member2", moving=True),
    "a cluster-scoped workload": WRITER.of_workload(VIEWER),
    "a cluster": WRITER.of_cluster("member1"),
    "a cluster that drains": WRITER.of_cluster("member1", draining=True),
    "a policy": WRITER.of_policy("PropagationPolicy", "shop", "web"),
    "a cluster-scoped policy": WRITER.of_policy("ClusterPropagationPolicy", "", "web"),
    "moves": [WRITER.moves()],
    "a move": WRITER.of_move(move_row("shop/Deployment/web", RowState.OVERDUE)),
    "a cluster-scoped move": WRITER.of_move(move_row("ClusterRole/viewer", namespace="")),
    "workloads": [*WRITER.workloads(), *WRITER.workloads("shop"), *WRITER.workloads("-")],
    "drift": WRITER.drift(),
    "resilience": WRITER.resilience("region"),
    "history": WRITER.history(
        workload=("Deployment", "web"), namespace="shop", cluster="member1", policy="shop/web",
        trigger=next(iter(TRIGGERS)), user="alice", since="24h", until="2026-01-01T00:00:00Z",
    ),
    **{
        f"a problem about {each.value}": WRITER.of_problem(FleetProblem(Damage.CONTROL, each, **PROBLEM))
        for each in Subject
    },
}  # fmt: skip
COMMANDS = {each.text: each for commands in ALL.values() for each in commands}


def parsed(words):
    """Let the parser read a command without running it."""
    group, context = main, click.Context(main, info_name="berthmaster")
    while True:
        if not isinstance(group, click.Group):
            group.make_context(group.name, list(words), parent=context)
            return
        if not words or words[0].startswith("-") or words[0] not in group.list_commands(context):
            group.make_context(group.name, list(words), parent=context)
            return
        name, *words = words
        context = click.Context(group, info_name=group.name, parent=context)
        group = group.get_command(context, name)


@pytest.mark.parametrize("text", COMMANDS)
def test_the_command_has_only_options_that_exist(text):
    command = COMMANDS[text]
    match command.words:
        case ("berthmaster", *words):
            parsed(words)
        case ("kubectl", "--context", "fleet" | "kind-member1", *_):
            pass
        case _:
            pytest.fail(f"neither berthmaster nor kubectl with a context: {text}")


@pytest.mark.parametrize("title", ALL)
def test_each_page_and_problem_has_commands(title):
    assert ALL[title]
    assert all(each.purpose and not each.purpose.endswith(".") for each in ALL[title])


def test_kubectl_reads_resources_that_exist():
    read = {each.words[each.words.index("get") + 1] for each in COMMANDS.values() if "get" in each.words}
    known = {f"{each.plural}.{each.group}" for each in BUILT_IN_NAMES}
    assert read - known == {"nodes"}
    assert "clusterpropagationpolicies.policy.karmada.io" in read


def test_a_wrong_option_would_be_found():
    with pytest.raises(click.UsageError):
        parsed(["drain", "member1", "--no-such-option"])


@cases(
    ("name", "text"),
    {
        "words of a shell are quoted": ("a b; rm -rf $HOME", "'Deployment/a b; rm -rf $HOME'"),
        "a quote": ("it's", """'Deployment/it'"'"'s'"""),
    },
)
def test_a_name_is_one_word_of_the_shell(name, text):
    assert text in CommandWriter().of_workload(WEB._replace(name=name))[0].text


@pytest.mark.parametrize("name", ["-rf", *(each for each in HOSTILE if not each.isprintable())])
def test_a_name_that_reads_as_an_option_or_not_at_all_has_no_command(name):
    assert CommandWriter().of_workload(WEB._replace(name=name)) == []
    assert CommandWriter().of_cluster(name) == []
