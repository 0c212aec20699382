"""Commands on the objects of a file."""

import json
import shlex

import pytest
from click.testing import CliRunner

from berthmaster_cli.main import main


@pytest.fixture
def on_objects(tmp_path):
    """Run a command with ``-f`` on objects. ``code`` is the expected exit code; None for any."""

    def run(line, *objects, code=None):
        path = tmp_path / "fleet.json"
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
        command, *rest = shlex.split(line)
        result = CliRunner().invoke(main, [command, "-f", str(path), *rest], prog_name="berthmaster")
        assert code in {None, result.exit_code}, result.output + repr(result.exception)
        return result

    return run
