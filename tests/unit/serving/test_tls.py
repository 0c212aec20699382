import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest
from webhook_process import Pair, make_pair

from berthmaster.model.errors import InputError
from berthmaster.serving.tls import TLSFiles, TLSSource


@pytest.fixture
def rotated(tmp_path):
    """Return a folder with a pair of files, their source, and the lists of loads and failures."""
    make_pair().write(tmp_path)
    loads, failures = [], []
    files = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    source = TLSSource(files, on_load=loads.append, on_failure=failures.append)
    return tmp_path, source, loads, failures


def test_unchanged_files_keep_the_context(rotated):
    _, source, loads, failures = rotated
    assert source.context() is source.context()
    assert (len(loads), failures) == (1, [])


def test_a_new_pair_gives_a_new_context(rotated):
    folder, source, loads, _ = rotated
    old = source.context()
    make_pair(days=90).write(folder)
    assert source.context() is not old
    assert loads[1] > loads[0]
    assert source.expires_at == loads[1]


def test_no_connection_of_a_burst_gets_the_old_pair(rotated):
    folder, source, _, _ = rotated
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            old = source.context()
            make_pair().write(folder)
            assert old not in list(threads.map(lambda _: source.context(), range(8)))


@pytest.mark.parametrize(
    "tear",
    [
        pytest.param(lambda old, new: Pair(new.certificate, old.key), id="a new certificate with the old key"),
        pytest.param(lambda old, new: Pair(old.certificate, new.key), id="a new key with the old certificate"),
        pytest.param(lambda _old, new: Pair(new.certificate[:200], new.key), id="a half-written certificate"),
        pytest.param(lambda _old, new: Pair(b"", new.key), id="an empty certificate"),
        pytest.param(lambda _old, new: Pair(new.certificate, b"\xff"), id="a key that is not text"),
    ],
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


def test_missing_files_keep_the_context(rotated):
    folder, source, _, failures = rotated
    good = source.context()
    (folder / "tls.key").unlink()
    assert source.context() is good
    assert len(failures) == 1


def test_a_start_without_a_usable_pair_is_an_error(tmp_path):
    with pytest.raises(InputError, match="TLS cannot be set up"):
        TLSSource(TLSFiles(tmp_path / "no.crt", tmp_path / "no.key"))


def test_a_client_ca_makes_client_certificates_required(tmp_path):
    make_pair().write(tmp_path)
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    assert TLSSource(TLSFiles(crt, key, client_ca=crt)).context().verify_mode is ssl.CERT_REQUIRED
    assert TLSSource(TLSFiles(crt, key)).context().verify_mode is ssl.CERT_NONE
    assert TLSSource(TLSFiles(crt, key)).context().minimum_version is ssl.TLSVersion.TLSv1_3
