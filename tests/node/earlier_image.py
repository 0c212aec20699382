"""The image of an earlier release: its sources in the place of those of our image, with the same dependencies."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Final

from node.node import ARCHIVE, IMAGE

PACKAGES: Final = ("berthmaster", "berthmaster_cli", "certs", "console", "extender", "webhook")
_PREFIX: Final = "opt/berthmaster/lib/python3.11/site-packages"


def write_image(sources: Path, version: str, file: Path) -> None:
    """Write an archive with the image of a release.

    Args:
        sources: the folder with the packages of the release.
        version: the tag of the image.
        file: the archive.
    """
    with tarfile.open(ARCHIVE) as ours, tarfile.open(file, "w") as made:
        [manifest] = json.load(_opened(ours, "manifest.json"))
        config = json.load(_opened(ours, manifest["Config"]))
        *kept, last = manifest["Layers"]
        layer = _layer(_opened(ours, last).read(), sources)
        config["rootfs"]["diff_ids"][-1] = f"sha256:{hashlib.sha256(layer).hexdigest()}"
        manifest |= {"RepoTags": [f"{IMAGE}:{version}"], "Config": "config.json", "Layers": [*kept, "layer.tar"]}
        for name in kept:
            made.addfile(ours.getmember(name), _opened(ours, name))
        for name, content in (
            ("layer.tar", layer),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps([manifest]).encode()),
        ):
            _add(made, name, content)


def _layer(present: bytes, sources: Path) -> bytes:
    """Return a layer with the packages of a release, and with all else of the present layer, such as its commands."""
    found = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(present)) as ours, tarfile.open(fileobj=found, mode="w") as made:
        for each in ours.getmembers():
            path = Path(each.name)
            if not any(path.is_relative_to(f"{_PREFIX}/{name}") for name in PACKAGES):
                made.addfile(each, ours.extractfile(each) if each.isfile() else None)
        for name in PACKAGES:
            for path in sorted((sources / name).rglob("*")):
                if path.is_file():
                    _add(made, f"{_PREFIX}/{path.relative_to(sources)}", path.read_bytes())
    return found.getvalue()


def _opened(archive: tarfile.TarFile, name: str) -> io.BufferedReader:
    found = archive.extractfile(name)
    assert isinstance(found, io.BufferedReader), name
    return found


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
