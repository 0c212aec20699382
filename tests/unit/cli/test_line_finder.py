"""An error in a file names the line of its field."""

import gzip

import pytest

from berthmaster.model.errors import ManifestError
from berthmaster_cli.line_finder import text_with_line

FILE = "kind: A\n---\nkind: B\nspec:\n  names:\n  - one\n  - 5\n"


@pytest.mark.parametrize(
    ("document", "path", "place"),
    [
        pytest.param(2, "spec.names[1]", "document 2, line 7: spec.names[1]: wrong", id="the line of an entry"),
        pytest.param(2, "spec.missing", "document 2, line 4: spec.missing: wrong", id="the line of what lacks a field"),
        pytest.param(1, "kind", "document 1: kind: wrong", id="no line, if it is the first"),
        pytest.param(None, "", "wrong", id="no line, if the file is the problem"),
    ],
)
def test_an_error_has(tmp_path, document, path, place):
    file = tmp_path / "fleet.yaml"
    file.write_text(FILE)
    assert text_with_line(ManifestError(str(file), document, "wrong", path)) == f"{file}: {place}"


def test_a_packed_file_and_standard_input_have_no_lines(tmp_path):
    packed = tmp_path / "fleet.yaml.gz"
    packed.write_bytes(gzip.compress(FILE.encode()))
    for source in (str(packed), "<stdin>"):
        assert text_with_line(ManifestError(source, 2, "wrong", "spec")) == f"{source}: document 2: spec: wrong"
