"""What a thread that has to live on does with what nobody thought of."""

import logging

import pytest

from berthmaster.model.errors import InputError
from berthmaster.runtime.crash import survived

LOG = logging.getLogger("test")


def raising(error: BaseException):
    def call() -> None:
        raise error

    return call


def test_what_comes_back_is_not_worth_a_word(caplog):
    assert survived(lambda: 3, LOG, "%s failed", "it")
    assert not caplog.records


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), InputError("x"), OSError("x")], ids=repr)
def test_what_is_raised_is_logged_in_full_and_goes_no_further(caplog, error):
    assert not survived(raising(error), LOG, "%s failed", "it", kind="things", name="a")
    [record] = caplog.records
    assert record.message == "it failed"
    assert record.exc_info[1] is error
    assert record.fields == {"kind": "things", "name": "a"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_what_ends_a_process_ends_it(error):
    with pytest.raises(type(error)):
        survived(raising(error), LOG, "it failed")
