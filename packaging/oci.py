"""OCI images as files: layers of a folder, an image layout, and the archive that `ctr`, `podman` and `docker` load.

Equal folders and an equal time give equal bytes. Nothing here runs a container.
"""

import gzip
import hashlib
import io
import json
import shlex
import shutil
import string
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

_OCI: Final = "application/vnd.oci.image"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Layer:
    """A layer: the tar file, the compressed bytes, and its size when unpacked."""

    tar: bytes
    compressed: bytes
    unpacked: int


@dataclass(frozen=True)
class Image:
    """An image of one platform."""

    architecture: str
    config: bytes
    layers: tuple[Layer, ...]

    @property
    def manifest(self) -> bytes:
        """The manifest. Its digest is the digest of the image."""
        return encoded({
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": descriptor("config.v1+json", self.config),
            "layers": [descriptor("layer.v1.tar+gzip", each.compressed) for each in self.layers],
        })  # fmt: skip


def digest(content: bytes) -> str:
    """Return the digest of a blob, as ``sha256:...``."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def encoded(value: object) -> bytes:
    """Return JSON without spaces, with sorted keys."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def descriptor(kind: str, content: bytes, **more: object) -> dict[str, object]:
    """Return the descriptor of a blob."""
    return {"mediaType": f"{_OCI}.{kind}", "digest": digest(content), "size": len(content), **more}


def layer(root: Path, epoch: int, belongs: Callable[[str], bool]) -> Layer:
    """Make a layer of the files below ``root`` whose path, without a first slash, belongs to it."""
    chosen = [
        path for path in root.rglob("*") if (path.is_symlink() or not path.is_dir()) and belongs(_name(root, path))
    ]
    folders = {parent for path in chosen for parent in path.parents if parent != root and root in parent.parents}
    empty = [path for path in root.rglob("*") if path.is_dir() and not path.is_symlink() and not any(path.iterdir())]
    folders |= {path for path in empty if belongs(_name(root, path))}
    output, unpacked = io.BytesIO(), 0
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted({*chosen, *folders}, key=lambda each: _name(root, each)):
            entry = archive.gettarinfo(path, arcname=_name(root, path))
            if entry.islnk():  # a hard link to a file that may be in another layer
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = 0o1777 if entry.name == "tmp" else 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.isreg():
                unpacked += entry.size
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    tar = output.getvalue()
    return Layer(tar, gzip.compress(tar, compresslevel=9, mtime=0), unpacked)


def image(architecture: str, layers: Iterable[Layer], settings: Mapping[str, Any], epoch: int) -> Image:
    """Return the image of some layers, lowest first, with the settings of ``final_stage``."""
    layers = tuple(layers)
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [digest(each.tar) for each in layers]},
    }
    return Image(architecture, encoded(config), layers)


def final_stage(containerfile: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a Containerfile's last stage, as an image's configuration has them."""
    stage = containerfile.replace("\\\n", " ").rpartition("\nFROM ")[2]
    found = {
        name: string.Template(rest).safe_substitute({**arguments, "PATH": _PATH})
        for name, _, rest in (line.partition(" ") for line in stage.splitlines()[1:])
    }
    return {
        "User": found["USER"],
        "WorkingDir": found["WORKDIR"],
        "Entrypoint": json.loads(found["ENTRYPOINT"]),
        "Cmd": json.loads(found["CMD"]),
        "Env": shlex.split(found["ENV"]),
        "Labels": dict(pair.split("=", 1) for pair in shlex.split(found["LABEL"])),
    }


def write_layout(folder: Path, images: Iterable[Image], tag: str) -> str:
    """Write an OCI image layout with one index over all images, and return the digest of this index."""
    shutil.rmtree(folder, ignore_errors=True)
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    images = list(images)
    manifests = [
        descriptor("manifest.v1+json", each.manifest, platform={"architecture": each.architecture, "os": "linux"})
        for each in images
    ]
    index = encoded({"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": manifests})
    contents = [index, *(blob for each in images for blob in (each.manifest, each.config))]
    for content in [*contents, *(each.compressed for image in images for each in image.layers)]:
        (blobs / digest(content).removeprefix("sha256:")).write_bytes(content)
    (folder / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
    named = descriptor("index.v1+json", index, annotations={"org.opencontainers.image.ref.name": tag})
    (folder / "index.json").write_bytes(encoded({"schemaVersion": 2, "manifests": [named]}))
    return digest(index)


def write_archive(file: Path, image: Image, name: str, epoch: int) -> None:
    """Write a docker-archive, not compressed, of one image with its name and tag."""
    config = digest(image.config).removeprefix("sha256:") + ".json"
    layers = {digest(each.tar).removeprefix("sha256:") + ".tar": each.tar for each in image.layers}
    manifest = encoded([{"Config": config, "RepoTags": [name], "Layers": list(layers)}])
    part = file.with_name(f"{file.name}.part")
    with tarfile.open(part, "w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in {config: image.config, **layers, "manifest.json": manifest}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            archive.addfile(entry, io.BytesIO(content))
    part.replace(file)


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root))
