"""The static files, in memory. Their addresses carry a digest of the content, so that browsers keep them forever."""

import hashlib
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from flask import Response, abort

FOLDER: Final = Path(__file__).parent / "static"
_CACHE: Final = "public, max-age=31536000, immutable"


class _StaticFile(NamedTuple):
    content: bytes
    content_type: str
    digest: str


class StaticFiles:
    """The static files that exist. The scripts of other projects are absent from a checkout without assets."""

    def __init__(self, folder: Path = FOLDER) -> None:
        found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        self._files: Mapping[str, _StaticFile] = {path.relative_to(folder).as_posix(): _read(path) for path in found}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def address(self, name: str) -> str:
        """Return the address of a file. Raises ``KeyError`` if there is no such file."""
        return f"/static/{name}?v={self._files[name].digest}"

    def response(self, filename: str) -> Response:
        file = self._files.get(filename)
        if file is None:
            abort(404)
        return Response(file.content, content_type=file.content_type, headers={"Cache-Control": _CACHE})


def _read(path: Path) -> _StaticFile:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind.endswith(("javascript", "xml"))
    return _StaticFile(content, f"{kind}; charset=utf-8" if text else kind, hashlib.sha256(content).hexdigest()[:12])
