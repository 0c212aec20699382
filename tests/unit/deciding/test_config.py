import msgspec
import pytest
from tables import cases

from berthmaster.deciding.config import (
    MoveRule,
    MovesConfig,
    MoveSelector,
    MoveSettings,
    MoveSubject,
    SourceOverride,
    SourceSettings,
    failback_annotation,
    pause_annotation,
    subject_of,
)
from berthmaster.model.binding import Binding
from berthmaster.model.errors import FieldError, InputError
from berthmaster.model.move import MoveStrategy
from berthmaster.model.selector import LabelSelector

ON = SourceSettings("On")


def rule(selector, **settings):
    return MoveRule(selector=selector, **settings)


@cases(
    ("selector", "matches"),
    {
        "an empty selector": (MoveSelector(), True),
        "its namespace": (MoveSelector(namespaces={"a", "shop"}), True),
        "another namespace": (MoveSelector(namespaces={"a"}), False),
        "its policy": (MoveSelector(policies={"shop/web"}), True),
        "a cluster policy of the same name": (MoveSelector(policies={"web"}), False),
        "its kind": (MoveSelector(kinds={"Deployment"}), True),
        "its label": (MoveSelector(labels=LabelSelector({"tier": "1"})), True),
        "another label": (MoveSelector(labels=LabelSelector({"tier": "2"})), False),
        "its namespace but another kind": (MoveSelector({"shop"}, kinds={"Job"}), False),
    },
)
def test_a_selector_matches_if_all_of_its_parts_do(selector, matches):
    subject = MoveSubject("shop", {"tier": "1"}, "shop/web", "Deployment")
    assert selector.matches(subject) is matches


@pytest.mark.parametrize(
    ("annotations", "policy"),
    [
        ({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "web"}, "shop/web"),
        ({"clusterpropagationpolicy.karmada.io/name": "all"}, "all"),
        ({}, ""),
    ],
)
def test_the_subject_of_a_binding_names_its_policy(annotations, policy):
    raw = {
        "metadata": {"name": "web-deployment", "namespace": "shop", "annotations": annotations, "labels": {"a": "b"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    assert subject_of(msgspec.convert(raw, Binding)) == MoveSubject("shop", {"a": "b"}, policy, "Deployment")


def test_without_a_configuration_nothing_is_planned():
    settings = MovesConfig().settings_for(MoveSubject("shop", {}, "", "Deployment"))
    assert (settings.failback.mode, settings.drain.mode, settings.rebalance.mode) == ("Off", "Off", "Off")


def test_for_each_setting_the_first_rule_that_states_it_applies():
    config = MovesConfig(
        defaults=MoveSettings(failback=ON),
        rules=(
            rule(MoveSelector({"shop"}), soak_s=5),
            rule(MoveSelector({"shop"}), soak_s=9, failback=SourceOverride(mode="DryRun")),
            rule(MoveSelector({"other"}), deadline_s=1),
        ),
    )
    settings = config.settings_for(MoveSubject("shop"))
    assert (settings.soak_s, settings.failback.mode, settings.deadline_s) == (5, "DryRun", 900)


@cases(
    ("rules", "modes"),
    {
        "the defaults": ((), ("Off", "Off")),
        "a wider rule": ((rule(MoveSelector({"shop"}), failback=SourceOverride(mode="On")),), ("Off", "Off")),
        "a rule for Jobs": ((rule(MoveSelector(kinds={"Job"}), failback=SourceOverride(mode="On")),), ("On", "Off")),
    },
)
def test_a_job_moves_by_failback_or_drain_only_if_a_rule_names_its_kind(rules, modes):
    config = MovesConfig(defaults=MoveSettings(failback=ON, drain=ON), rules=rules)
    settings = config.settings_for(MoveSubject("shop", {}, "", "Job"))
    assert (settings.failback.mode, settings.drain.mode) == modes


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [("Deployment", "MakeBeforeBreak"), ("Job", "BreakBeforeMake"), ("CronJob", "BreakBeforeMake")],
)
def test_kinds_that_do_their_work_twice_break_before_they_make(kind, strategy):
    assert MovesConfig().settings_for(MoveSubject("shop", {}, "", kind)).strategy.value == strategy


def test_a_rule_changes_the_strategy_of_such_a_kind():
    config = MovesConfig(rules=(rule(MoveSelector(kinds={"CronJob"}), strategy=MoveStrategy.MAKE_BEFORE_BREAK),))
    assert config.settings_for(MoveSubject("shop", {}, "", "CronJob")).strategy is MoveStrategy.MAKE_BEFORE_BREAK


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", SourceSettings("On", 600, 10)),
        ("true", SourceSettings("On", 600, 10)),
        ("false", SourceSettings("Off", 600, 10)),
        ("after=5m", SourceSettings("On", 300, 10)),
        ("after=5m, headroom=0%, mode=dryrun", SourceSettings("DryRun", 300, 0)),
        ("mode=Off", SourceSettings("Off", 600, 10)),
    ],
)
def test_the_annotation_of_a_policy_turns_failback_on(text, settings):
    assert failback_annotation(text, SourceSettings()) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yes", "'yes' is not NAME=VALUE; accepted is"),
        ("after=5", "after: '5' is not a duration"),
        ("headroom=10", "headroom: '10' is not a percentage"),
        ("headroom=1001%", "headroom: '1001%' is too large"),
        ("mode=always", "mode: 'always' is not accepted; accepted are Off, DryRun, On"),
        ("soak=5m", "'soak' is unknown"),
    ],
)
def test_an_invalid_annotation_is_an_error_that_names_the_part(text, message):
    with pytest.raises(FieldError) as error:
        failback_annotation(text, SourceSettings())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "pause"), [("true", "Planned"), ("Planned", "Planned"), ("ALL", "All"), ("false", "None"), ("", "None")]
)
def test_the_annotation_of_a_policy_pauses_its_moves(text, pause):
    assert pause_annotation(text) == pause


def test_an_invalid_pause_is_an_error():
    with pytest.raises(InputError, match="accepted are"):
        pause_annotation("until monday")
