"""Bearer tokens from a file that changes."""

import os

import pytest
from fake_clock import FakeClock

from berthmaster.model.errors import InputError
from berthmaster.serving.tokens import TokenFile

LONG, OTHER = "a-token-of-some-length", "b-token-of-some-length"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


@pytest.mark.parametrize(
    ("content", "header", "name"),
    [
        pytest.param(f"{LONG},alice,1,group\n", f"Bearer {LONG}", "alice", id="a token with a name and more"),
        pytest.param(f"{LONG}\n", f"Bearer {LONG}", "", id="a token without a name"),
        pytest.param(f"# note\n\n {LONG} , bob \r\n", f"Bearer {LONG}", "bob", id="comments, blanks and spaces"),
        pytest.param(f"{OTHER},bob\n{LONG},alice\n", f"bearer {LONG}", "alice", id="one of several"),
        pytest.param(f"{LONG}\n", f"Bearer {LONG[:-1]}", None, id="a prefix of a token"),
        pytest.param(f"{LONG}\n", LONG, None, id="no scheme"),
        pytest.param(f"{LONG}\n", "", None, id="an empty header"),
        pytest.param(f"{LONG}\n", "Bearer \udcff", None, id="invalid text"),
    ],
)
def test_a_header_gives_the_name_of_its_token(path, content, header, name):
    path.write_text(content)
    assert TokenFile(path).name_of(header) == name


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("", "contains no token", id="empty"),
        pytest.param("# nothing\n", "contains no token", id="comments only"),
        pytest.param("short\n", "line 1: a token needs at least 16 characters", id="a token that is too short"),
    ],
)
def test_a_file_without_valid_tokens_is_refused_at_the_start(path, content, problem):
    path.write_text(content)
    with pytest.raises(InputError, match=problem):
        TokenFile(path)


def test_a_missing_file_is_refused_at_the_start(path):
    with pytest.raises(InputError, match="cannot be read"):
        TokenFile(path)


def test_a_named_pipe_is_refused_at_once(path):
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        TokenFile(path)


@pytest.fixture
def in_use(path):
    """Return a function that checks a token, and the list of reported failures."""
    path.write_text(f"{LONG}\n")
    failures, clock = [], FakeClock()
    tokens = TokenFile(path, failures.append, clock.monotonic_s)

    def is_valid(token):
        clock.pass_by(2)
        return tokens.name_of(f"Bearer {token}") is not None

    return is_valid, failures


def test_an_invalid_file_keeps_the_previous_tokens_and_is_reported_once(path, in_use):
    is_valid, failures = in_use
    path.write_text("short\n")
    assert all(is_valid(LONG) for _ in range(3))
    assert len(failures) == 1
    path.write_text("\n")
    assert not is_valid(LONG), "no token of an empty file is valid"


def test_a_missing_file_keeps_the_previous_tokens_and_is_reported_once(path, in_use):
    is_valid, failures = in_use
    path.unlink()
    assert all(is_valid(LONG) for _ in range(3))
    assert len(failures) == 1
    path.write_text(f"{OTHER}\n")
    assert (is_valid(LONG), is_valid(OTHER)) == (False, True)
    path.unlink()
    assert is_valid(OTHER)
    assert len(failures) == 2, "a second loss is reported again"


def test_a_file_that_becomes_readable_without_another_change_is_read(path, in_use, monkeypatch):
    is_valid, failures = in_use
    path.write_text(f"{OTHER}\n")
    with monkeypatch.context() as denied:
        denied.setattr(os, "open", lambda *_args, **_more: (_ for _ in ()).throw(PermissionError("not yours")))
        assert is_valid(LONG)
        assert is_valid(LONG)
    assert [str(each) for each in failures] == ["not yours"]
    assert (is_valid(LONG), is_valid(OTHER)) == (False, True)
