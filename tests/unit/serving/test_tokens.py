"""Bearer tokens from a file."""

import pytest

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
        pytest.param(f"{LONG}\n", f"Bearer {LONG[:-1]}", None, id="one that is nearly right"),
        pytest.param(f"{LONG}\n", LONG, None, id="no scheme"),
        pytest.param(f"{LONG}\n", "", None, id="nothing"),
        pytest.param(f"{LONG}\n", "Bearer \udcff", None, id="what is no text"),
    ],
)
def test_a_header_is_recognized(path, content, header, name):
    path.write_text(content)
    assert TokenFile(path).name_of(header) == name


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("", "contains no token", id="empty"),
        pytest.param("# nothing\n", "contains no token", id="comments alone"),
        pytest.param("short\n", "line 1: a token needs at least 16 characters", id="a token that is too short"),
    ],
)
def test_a_file_that_lets_nobody_in_is_refused_at_the_start(path, content, problem):
    path.write_text(content)
    with pytest.raises(InputError, match=problem):
        TokenFile(path)


def test_a_file_that_is_not_there_is_refused(path):
    with pytest.raises(InputError, match="cannot be read"):
        TokenFile(path)


def test_what_cannot_be_used_leaves_the_last_tokens_and_is_told_once(path):
    failures = []
    path.write_text(f"{LONG}\n")
    tokens = TokenFile(path, failures.append)
    path.write_text("short\n")
    for _ in range(3):
        tokens._check_at = 0
        assert tokens.name_of(f"Bearer {LONG}") == ""
    assert len(failures) == 1
    path.write_text("\n")
    tokens._check_at = 0
    assert tokens.name_of(f"Bearer {LONG}") is None, "an empty file lets nobody in"


@pytest.fixture
def in_use(path):
    """Tokens in use, what was told of failures, and a way to look."""
    path.write_text(f"{LONG}\n")
    failures = []
    tokens = TokenFile(path, failures.append)

    def let_in(token):
        tokens._check_at = 0
        return tokens.name_of(f"Bearer {token}") is not None

    return let_in, failures


def test_a_file_that_is_gone_leaves_the_last_tokens_and_is_told_once(path, in_use):
    let_in, failures = in_use
    path.unlink()
    assert all(let_in(LONG) for _ in range(3))
    assert len(failures) == 1
    path.write_text(f"{OTHER}\n")
    assert (let_in(LONG), let_in(OTHER)) == (False, True)
    path.unlink()
    assert let_in(OTHER)
    assert len(failures) == 2, "gone again is news again"


def test_a_file_that_becomes_readable_without_another_change_is_read(path, in_use, monkeypatch):
    let_in, failures = in_use
    path.write_text(f"{OTHER}\n")
    with monkeypatch.context() as denied:
        denied.setattr(type(path), "open", lambda *_args, **_more: (_ for _ in ()).throw(PermissionError("not yours")))
        assert let_in(LONG)
        assert let_in(LONG)
    assert [str(each) for each in failures] == ["not yours"]
    assert (let_in(LONG), let_in(OTHER)) == (False, True)
