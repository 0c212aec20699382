"""A folder that cannot always be read."""

import pytest
from tables import cases
from waiting import wait_for

from berthmaster.model.errors import ManifestError
from berthmaster.scheduling.karmada.profile import karmada_profile
from extender.state import folder as module
from extender.state.folder import FolderSource
from extender.state.state import State

CLUSTER = """{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "%s"}}"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(CLUSTER % "a")
    return path


@pytest.fixture
def failures():
    return []


@pytest.fixture
def source(path, failures, clock, monkeypatch):
    monkeypatch.setattr(module, "_SETTLE_S", 0.0)
    made = FolderSource([path], clock, failures.append, interval_s=0.01)
    yield made
    made.stop()


@pytest.fixture
def state():
    return State(karmada_profile())


@pytest.fixture
def failing(monkeypatch):
    """Let reads of manifests fail until the function that this one returns is called."""

    def fail_with(error):
        def read(*_args):
            raise error

        context = pytest.MonkeyPatch()
        context.setattr(module, "load_manifests", read)
        return context.undo

    yield fail_with
    monkeypatch.undo()


def names(state):
    with state.reading() as cache:
        return sorted(cache.world.clusters)


def test_unreadable_content_is_retried_without_a_change(source, state, path, failures, clock, failing):
    source.look(state)
    mend = failing(ManifestError(str(path), None, "cannot be read: Permission denied"))
    path.write_text(CLUSTER % "bc")
    for _ in range(3):
        clock.pass_by(20)
        source.look(state)
    assert len(failures) == 1, "reported once"
    assert state.staleness.problem
    mend()
    clock.pass_by(30)
    source.look(state)
    assert (names(state), state.staleness.problem) == (["bc"], "")


@cases(
    ("content", "expected", "problem"),
    {"other content": (CLUSTER % "bc", ["bc"], ""), "invalid content": ("{broken", ["a"], "not valid JSON")},
)
def test_a_start_reads_the_folder_again_if_it_changed_after_prepare(source, state, path, content, expected, problem):
    source.prepare()
    path.write_text(content)
    source.start(state)
    assert names(state) == expected
    assert problem in state.staleness.problem
    assert bool(state.staleness.stale_since) == bool(problem)


def test_checks_continue_after_a_crash(source, state, path, caplog, failing):
    source.prepare()
    source.start(state)
    mend = failing(KeyError("an unexpected error"))
    path.write_text(CLUSTER % "bc")
    wait_for(lambda: state.staleness.stale_since is not None)
    assert "the log has the cause" in state.staleness.problem
    assert "an unexpected error" in caplog.text
    assert names(state) == ["a"]
    mend()
    path.write_text(CLUSTER % "def")
    wait_for(lambda: state.staleness.stale_since is None)
    assert names(state) == ["def"]
