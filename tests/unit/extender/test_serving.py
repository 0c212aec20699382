"""What a worker does besides answering."""

import threading

from extender import serving
from extender.serving import ExtenderOptions


def test_a_worker_that_could_not_say_how_it_is_says_it_later(monkeypatch, caplog):
    monkeypatch.setattr(serving, "_HOUSEKEEPING_S", 0.01)
    said, again = [], threading.Event()

    class Extender(serving._Extender):
        def _keep_house(self, _post):
            said.append("something")
            if len(said) == 2:
                raise OSError("no space left on device")
            if len(said) == 4:
                again.set()
                threading.Event().wait()  # the test is over

    Extender(ExtenderOptions(server=None)).started(lambda _health: None)
    assert again.wait(5)
    assert "no space left on device" in caplog.text
