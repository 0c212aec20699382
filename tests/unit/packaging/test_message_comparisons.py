"""The check that no code compares a text with a sentence."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "packaging" / "message_comparisons.py"
SPEC = importlib.util.spec_from_file_location("message_comparisons", SCRIPT)
CHECK = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(CHECK)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('text == "the cluster is not known"', id="a comparison"),
        pytest.param('if "the cluster is not known" not in str(error): pass', id="a part"),
        pytest.param('text in {"x", "the cluster is not known"}', id="a set"),
        pytest.param('text.endswith("; the object is left out")', id="a suffix"),
        pytest.param('text.startswith(("x", f"{kind} is not known here"))', id="a prefix with a value"),
        pytest.param('import re\nre.search("the cluster .* not known", text)', id="a regular expression"),
        pytest.param('import re\nP = re.compile("the cluster .* not known")', id="a compiled expression"),
        pytest.param('END: Final = "; the object is left out"\ntext.endswith(END)', id="a name"),
        pytest.param('BAD = frozenset({"it has no place left"})\ndef f(x): return x in BAD', id="a set with a name"),
        pytest.param('match text:\n    case "the cluster is not known": pass', id="a match"),
        pytest.param('WORDS = {"the cluster is not known": 1}\nWORDS.get(text)', id="a lookup"),
        pytest.param('text.partition("did you mean this one")', id="a cut"),
    ],
)
def test_code_that_compares_with_a_sentence_is_found(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    [found] = CHECK.problems(path)
    assert f"{path}:" in found


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('text == "no place left"', id="three words"),
        pytest.param('raise ValueError("the cluster is not known at all")', id="a message"),
        pytest.param('{"the cluster is not known": 1}', id="a dict that nothing looks up"),
        pytest.param("kind is Kind.UNKNOWN", id="a fact"),
    ],
)
def test_other_code_is_not_found(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    assert not [*CHECK.problems(path)]


def test_the_check_fails_if_it_finds_something(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "console").mkdir()
    assert CHECK.main() == 0
    (tmp_path / "console" / "app.py").write_text('text.endswith("; the object is left out")')
    assert CHECK.main() == 1
    assert "console/app.py:1: " in capsys.readouterr().out
