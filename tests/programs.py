"""Programs of the repository that no package holds."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def program(path: str) -> ModuleType:
    """Return the module that a file of the repository is."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
