"""The files of commands: what they hold, notes about what is passed over, and kustomizations rendered by kubectl."""

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from berthmaster.manifests import Document
from berthmaster.manifests.files import documents_in
from berthmaster.manifests.foreign import Foreign, PassedOver
from berthmaster.manifests.loader import given_documents
from berthmaster.model.errors import InputError, name_list, printable
from berthmaster_cli.output import complain

_NAMED: Final = 3
_LIMIT_S: Final = 60
_RENDERERS: Final = (("kubectl", "kustomize"), ("kustomize", "build"))


def documents_of(paths: Sequence[str], folders: Sequence[str] = ()) -> list[Document]:
    """Return the objects of files, and of kustomizations. Print a note for each kind of file that is passed over.

    Raises:
        InputError: a document is invalid, or there is no object at all.
    """
    given = given_documents(paths, stdin=sys.stdin.buffer)
    found: list[Document | PassedOver] = [*given.documents, *given.passed_over]
    for folder in folders:
        found += documents_in(rendered(folder), source_of(folder))
    documents = [each for each in found if isinstance(each, Document)]
    notes = list(passed_over_texts(each for each in found if isinstance(each, PassedOver)))
    if not documents and (paths or folders):
        inputs = name_list([*paths, *map(source_of, folders)], _NAMED)
        raise InputError("; ".join((f"there is no object in {inputs}", *notes)))
    for note in notes:
        complain(note)
    return documents


def passed_over_texts(passed: Iterable[PassedOver]) -> Iterable[str]:
    """Return one sentence for each kind of file: which are passed over, what they are, and what to do."""
    sources: defaultdict[Foreign, dict[str, None]] = defaultdict(dict)
    for each in passed:
        sources[each.what][each.source] = None
    for what, names in sources.items():
        subject = name_list(list(names), _NAMED)
        others = f" ({len(names)} files, each {what.value})" if len(names) > 1 else f" {what.value}"
        yield f"passed over: {subject}{others}"


def source_of(folder: str) -> str:
    """Return how messages name the objects of a kustomization."""
    return f"-k {folder}"


def rendered(folder: str) -> bytes:
    """Return what ``kubectl kustomize`` makes of a folder. Raises ``InputError`` if it fails, or is not there."""
    command = next(((path, verb) for name, verb in _RENDERERS if (path := shutil.which(name))), None)
    if command is None:
        raise InputError(
            f"-k {folder}: neither kubectl nor kustomize is in PATH; render the folder elsewhere, and use -f"
        )
    try:
        done = subprocess.run(  # noqa: S603 - a program that the user has, on a folder that the user names
            [*command, folder], capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"-k {folder}: {command[0]} did not end within {_LIMIT_S} s") from None
    if done.returncode:
        printed = done.stderr.decode(errors="replace").strip().splitlines() or ["no output"]
        raise InputError(printable(f"-k {folder}: {printed[0]}"))
    return done.stdout
