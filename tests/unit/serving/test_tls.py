"""Certificates and tokens in files."""

import copy
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_clock import FakeClock
from tables import cases
from webhook_process import Pair, make_pair

from berthmaster.model.errors import InputError
from berthmaster.serving.reloaded_files import MAX_FILE_BYTES
from berthmaster.serving.tls import TLSFiles, TLSSource
from berthmaster.serving.tokens import TokenFile


@pytest.fixture
def rotated(tmp_path):
    make_pair().write(tmp_path)
    loads, failures = [], []
    files = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    source = TLSSource(files, on_load=loads.append, on_failure=failures.append)
    return tmp_path, source, loads, failures


def test_unchanged_files_keep_the_context(rotated):
    _, source, loads, failures = rotated
    assert source.context() is source.context()
    assert (len(loads), failures) == (1, [])


def test_no_connection_of_a_burst_gets_the_old_pair(rotated):
    folder, source, _, _ = rotated
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            old = source.context()
            make_pair().write(folder)
            assert old not in list(threads.map(lambda _: source.context(), range(8)))


@cases(
    "tear",
    {
        "a new certificate with the old key": lambda old, new: Pair(new.certificate, old.key),
        "a new key with the old certificate": lambda old, new: Pair(old.certificate, new.key),
        "a half-written certificate": lambda _old, new: Pair(new.certificate[:200], new.key),
        "an empty certificate": lambda _old, new: Pair(b"", new.key),
        "a key that is not text": lambda _old, new: Pair(new.certificate, b"\xff"),
    },
)
def test_a_torn_pair_is_reported_once_and_not_used(rotated, tear):
    folder, source, loads, failures = rotated
    good, new = source.context(), make_pair()
    tear(Pair((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes()), new).write(folder)
    assert [source.context() for _ in range(3)] == [good] * 3
    assert (len(loads), len(failures)) == (1, 1)
    new.write(folder)
    assert source.context() is not good
    assert (len(loads), len(failures)) == (2, 1)


def test_a_start_without_a_usable_pair_is_an_error(tmp_path):
    with pytest.raises(InputError, match="TLS cannot be set up"):
        TLSSource(TLSFiles(tmp_path / "no.crt", tmp_path / "no.key"))


def test_a_client_ca_makes_client_certificates_required(tmp_path):
    make_pair().write(tmp_path)
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    assert TLSSource(TLSFiles(crt, key, client_ca=crt)).context().verify_mode is ssl.CERT_REQUIRED
    assert TLSSource(TLSFiles(crt, key)).context().verify_mode is ssl.CERT_NONE
    assert TLSSource(TLSFiles(crt, key)).context().minimum_version is ssl.TLSVersion.TLSv1_3


def test_an_expired_certificate_does_not_replace_a_valid_one(rotated):
    folder, source, loads, failures = rotated
    good = source.context()
    make_pair(days=-1 / 48).write(folder)
    assert source.context() is good
    assert (len(loads), len(failures)) == (1, 1)
    assert "the certificate expired at 20" in str(failures[0])
    make_pair(days=60).write(folder)
    assert source.context() is not good


def test_an_expired_certificate_replaces_an_expired_one(tmp_path):
    make_pair(days=-1 / 48).write(tmp_path)
    source = TLSSource(TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
    first = source.context()
    make_pair(days=-1 / 96).write(tmp_path)
    assert source.context() is not first


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
@cases(
    ("replace", "problem"),
    {
        "a named pipe": (pipe, "not a regular file"),
        "a device": (link_to_a_device, "not a regular file"),
        "a folder": (Path.mkdir, "directory|not a regular file"),
        "a huge file": (large_file, "larger than 1048576 bytes"),
    },
)
def test_what_is_no_file_of_a_usual_size_is_refused_at_once(tmp_path, name, replace, problem):
    make_pair().write(tmp_path)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "tls.crt").read_bytes())
    files, failures = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"), []
    source = TLSSource(files, on_failure=failures.append)
    good = source.context()
    (tmp_path / name).unlink()
    replace(tmp_path / name)
    assert source.context() is good
    with pytest.raises(InputError, match=problem):
        TLSSource(files)
    assert len(failures) == 1


def other_process(source: TLSSource) -> TLSSource:
    """Return the source as another process has it after a fork: state of its own, and the same shared memory."""
    forked = copy.copy(source)
    forked._reloaded = copy.copy(source._reloaded)  # noqa: SLF001 - another process has attributes of its own
    forked._reloaded._load = forked._load  # noqa: SLF001 - another process has attributes of its own
    return forked


def test_a_set_that_one_process_has_read_is_used_by_all_even_if_the_files_are_torn_by_then(rotated):
    folder, source, _, _ = rotated
    others = [other_process(source) for _ in range(2)]
    new = make_pair(days=60)
    new.write(folder)
    source.context()
    Pair(make_pair().certificate, new.key).write(folder)
    expiries = []
    for each in (*others, other_process(others[0])):
        each.context()
        expiries.append(each.expires_at)
    assert set(expiries) == {source.expires_at}


def test_processes_agree_on_the_newest_set_in_any_order(rotated):
    folder, source, _, _ = rotated
    processes = [source, *(other_process(source) for _ in range(2))]
    for turn in range(6):
        make_pair(days=60 + turn).write(folder)
        processes[turn % 3].context()
        processes[(turn + 1) % 3].context()
    (folder / "tls.key").write_bytes(b"torn")
    for each in processes:
        each.context()
    assert len({each.expires_at for each in processes}) == 1


@cases(
    ("before", "after", "trusted"),
    {
        "the same CA": ("a", "a", True),
        "a CA was added": ("a", "ab", True),
        "a CA was removed": ("ab", "b", False),
        "a CA was replaced": ("a", "b", False),
    },
)
def test_clients_of_a_removed_ca_are_no_longer_trusted(tmp_path, before, after, trusted):
    make_pair().write(tmp_path)
    authorities = {"a": make_pair().certificate, "b": make_pair().certificate}
    ca = tmp_path / "ca.crt"
    ca.write_bytes(b"".join(authorities[each] for each in before))
    source = TLSSource(TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key", ca))
    context = source.context()
    ca.write_bytes(b"".join(authorities[each] for each in after))
    assert source.trusts_clients_of(context) == trusted


LONG, OTHER = "a-token-of-some-length", "b-token-of-some-length"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


@cases(
    ("content", "header", "name"),
    {
        "a token with a name and more": (f"{LONG},alice,1,group\n", f"Bearer {LONG}", "alice"),
        "a token without a name": (f"{LONG}\n", f"Bearer {LONG}", ""),
        "comments, blanks and spaces": (f"# note\n\n {LONG} , bob \r\n", f"Bearer {LONG}", "bob"),
        "one of several": (f"{OTHER},bob\n{LONG},alice\n", f"bearer {LONG}", "alice"),
        "a prefix of a token": (f"{LONG}\n", f"Bearer {LONG[:-1]}", None),
        "no scheme": (f"{LONG}\n", LONG, None),
        "an empty header": (f"{LONG}\n", "", None),
        "invalid text": (f"{LONG}\n", "Bearer \udcff", None),
    },
)
def test_a_header_gives_the_name_of_its_token(path, content, header, name):
    path.write_text(content)
    assert TokenFile(path).name_of(header) == name


@cases(
    ("content", "problem"),
    {
        "empty": ("", "contains no token"),
        "comments only": ("# nothing\n", "contains no token"),
        "a token that is too short": ("short\n", "line 1: a token needs at least 16 characters"),
    },
)
def test_a_file_without_valid_tokens_is_refused_at_the_start(path, content, problem):
    path.write_text(content)
    with pytest.raises(InputError, match=problem):
        TokenFile(path)


def test_a_missing_file_is_refused_at_the_start(path):
    with pytest.raises(InputError, match="cannot be read"):
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


@cases("spoil", {"invalid": lambda path: path.write_text("short\n"), "missing": Path.unlink})
def test_an_unusable_file_keeps_the_previous_tokens_and_is_reported_once(path, in_use, spoil):
    is_valid, failures = in_use
    spoil(path)
    assert all(is_valid(LONG) for _ in range(3))
    assert len(failures) == 1
    path.write_text(f"{OTHER}\n")
    assert (is_valid(LONG), is_valid(OTHER)) == (False, True)
    spoil(path)
    assert is_valid(OTHER)
    assert len(failures) == 2, "a second loss is reported again"
    path.write_text("\n")
    assert not is_valid(OTHER), "no token of an empty file is valid"


def test_a_file_that_becomes_readable_without_another_change_is_read(path, in_use, monkeypatch):
    is_valid, failures = in_use
    path.write_text(f"{OTHER}\n")
    with monkeypatch.context() as denied:
        denied.setattr(os, "open", lambda *_args, **_more: (_ for _ in ()).throw(PermissionError("not yours")))
        assert is_valid(LONG)
        assert is_valid(LONG)
    assert [str(each) for each in failures] == ["not yours"]
    assert (is_valid(LONG), is_valid(OTHER)) == (False, True)
