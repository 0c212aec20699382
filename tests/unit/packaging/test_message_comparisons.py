"""The check that no code compares a text with a sentence."""

from programs import program
from tables import cases

CHECK = program("packaging/message_comparisons.py")


@cases(
    "code",
    {
        "a comparison": 'text == "the cluster is not known"',
        "a part": 'if "the cluster is not known" not in str(error): pass',
        "a set": 'text in {"x", "the cluster is not known"}',
        "a suffix": 'text.endswith("; the object is left out")',
        "a prefix with a value": 'text.startswith(("x", f"{kind} is not known here"))',
        "a regular expression": 'import re\nre.search("the cluster .* not known", text)',
        "a compiled expression": 'import re\nP = re.compile("the cluster .* not known")',
        "a name": 'END: Final = "; the object is left out"\ntext.endswith(END)',
        "a set with a name": 'BAD = frozenset({"it has no place left"})\ndef f(x): return x in BAD',
        "a match": 'match text:\n    case "the cluster is not known": pass',
        "a lookup": 'WORDS = {"the cluster is not known": 1}\nWORDS.get(text)',
        "a cut": 'text.partition("did you mean this one")',
    },
)
def test_code_that_compares_with_a_sentence_is_found(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    [found] = CHECK.problems(path)
    assert f"{path}:" in found


@cases(
    "code",
    {
        "three words": 'text == "no place left"',
        "a message": 'raise ValueError("the cluster is not known at all")',
        "a dict that nothing looks up": '{"the cluster is not known": 1}',
        "a fact": "kind is Kind.UNKNOWN",
    },
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
