"""Bytes that processes share."""

from pathlib import Path

import pytest

from berthmaster.serving.shared_bytes import SharedBytes

DESCRIPTORS = Path("/proc/self/fd")


def test_a_value_replaces_the_previous_one():
    shared = SharedBytes(10)
    assert (shared.version, shared.read()) == (0, b"")
    for number, value in enumerate([b"a" * 10, b"", b"bc", b"def"], start=1):
        with shared.locked():
            shared.write(value)
        assert (shared.version, shared.read()) == (number, value)


def test_a_value_that_is_too_large_is_refused_and_the_previous_one_stays():
    shared = SharedBytes(10)
    shared.write(b"good")
    with pytest.raises(ValueError, match="11 bytes; at most 10 are shared"):
        shared.write(b"x" * 11)
    assert (shared.version, shared.read()) == (1, b"good")


def test_a_write_that_is_cut_off_leaves_the_previous_value():
    shared = SharedBytes(10)
    shared.write(b"first")
    shared.write(b"good")
    start = 3 * 8 + 10  # behind the numbers and the first slot
    shared._memory[start : start + 5] = b"wrong"  # noqa: SLF001 - a writer is killed before it changes the version
    assert (shared.version, shared.read()) == (2, b"good")


def test_the_lock_leaves_no_descriptor_behind():
    before = len(list(DESCRIPTORS.iterdir()))
    for _ in range(5):
        SharedBytes(10)
    assert len(list(DESCRIPTORS.iterdir())) == before
