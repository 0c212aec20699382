"""The check that constants stand above the functions and classes of their module."""

from pathlib import Path

from programs import program
from tables import cases

CHECK = program("packaging/constants_first.py")


@cases(
    "code",
    {
        "below a function": "def f(): pass\nLIMIT_S = 1",
        "below a class, of which it is no part": "class A: pass\nLIMIT_S: Final = 1",
        "made of a class that is not directly above": "class A: pass\ndef f(): pass\nALL = (A,)",
        "used by a class that is not directly above": "class A:\n    x = LIMIT\ndef f(): pass\nLIMIT = 1",
        "between two functions": "def f(): pass\nLIMIT_S = 1\ndef g(): pass",
    },
)
def test_a_constant_of_another_subject_is_found(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    [(_line, name)] = CHECK.misplaced(path)
    assert name in code


@cases(
    "code",
    {
        "above all": "LIMIT_S = 1\ndef f(): pass",
        "made of the class above": 'class A: pass\nDECODER: Final = Decoder(A)\n"""Reads it."""\nTWO = (DECODER,)',
        "made of one of the classes above": "class A: pass\nclass B: pass\nNONE = A()",
        "used by the class above": "class A:\n    def f(self): return _LIMIT\n_LIMIT = 1",
        "made of the function above": "def f(): pass\nTABLE = {1: f}",
        "a name of a type": "def f(): pass\nPaths = list[str]\nT = TypeVar('T')",
    },
)
def test_other_names_are_not_found(code, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    assert not [*CHECK.misplaced(path)]


def test_each_place_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("console").mkdir()
    module = Path("console/app.py")
    module.write_text("def f(): pass\nFIRST = 1")
    assert CHECK.main() == 1
    assert "console/app.py:2: FIRST" in capsys.readouterr().out
    module.write_text("FIRST = 1\ndef f(): pass")
    assert CHECK.main() == 0
