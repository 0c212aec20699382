"""Writes what was read from a control plane to a file that ``-f`` reads again."""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec.structs

from berthmaster.manifests.redaction import redacted
from berthmaster.model.decode import encode_json
from berthmaster.model.errors import InputError
from berthmaster_cli.live.source import LiveDocuments


def write_dump(live: LiveDocuments, path: Path, *, redact: bool) -> None:
    """Write a ``v1`` ``List`` as JSON, which is YAML as well, with one object in each line.

    Only the user can read the file. It appears under its name when it is complete.
    """
    snapshot = msgspec.structs.replace(live.snapshot, redacted=redact)
    items = (redacted(each.raw) if redact else each.raw for each in live.documents)
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with mode 0600
        with os.fdopen(handle, "wb") as file:
            _write(file, [snapshot.manifest()], items)
        Path(name).replace(path)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write(file: BinaryIO, *groups: Iterable[dict[str, Any]]) -> None:
    file.write(b'{"apiVersion": "v1", "kind": "List", "items": [')
    separator = b"\n"
    for group in groups:
        for item in group:
            file.write(separator + encode_json(item))
            separator = b",\n"
    file.write(b"\n]}\n")
