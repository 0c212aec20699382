"""How to install an extra, by the origin of the copy (PEP 610). No remedy names a package on an index."""

import json

import pytest

from berthmaster.runtime import installation
from berthmaster.runtime.installation import extra_remedy


@pytest.mark.parametrize(
    ("origin", "remedy"),
    [
        ({"url": "file:///src/b", "dir_info": {"editable": True}}, "pip install -e '/src/b[ledger]'"),
        ({"url": "file:///b.whl", "archive_info": {}}, "pip install 'berthmaster[ledger] @ file:///b.whl'"),
        (
            {"url": "https://git.example/b", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "pip install 'berthmaster[ledger] @ git+https://git.example/b@c0ffee'",
        ),
        (None, "install this copy of berthmaster again, from the same file or folder, with its extra 'ledger'"),
    ],
)
def test_an_extra_comes_from_where_the_copy_came_from(monkeypatch, origin, remedy):
    class Installed:
        def read_text(self, _name: str) -> str | None:
            return json.dumps(origin) if origin is not None else None

    monkeypatch.setattr(installation, "distribution", lambda _name: Installed())
    assert extra_remedy("ledger") == remedy
