"""Build the image from Debian packages, without a registry, a container engine or root.

    python packaging/image.py [--platform amd64 arm64] [--output dist]      # the image
    python packaging/image.py --lock                                        # image/debian-*.lock

The result is an OCI layout, an archive for `ctr`, `podman` and `docker`, an SBOM and a provenance statement for each
platform. Two builds of a commit on machines with the same zlib have the same digest.
"""

import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import debian
import oci
import statements
import wheels

ROOT: Final = Path(__file__).resolve().parents[1]
PREFIX: Final = "opt/berthmaster"
NAME: Final = "localhost/berthmaster"
"""The repository in the archive. A node never pulls it, because no registry has this name."""
PYTHON: Final = "3.11"
_MACHINES: Final = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_OURS: Final = re.compile(
    rf"{PREFIX}/(bin/.*berthmaster|lib/python[^/]+/site-packages/(berthmaster|extender|webhook|certs|console))"
)


def _script(name: str) -> Any:  # noqa: ANN401 # a module outside any package
    spec = importlib.util.spec_from_file_location(name, ROOT / "image" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


install = _script("install")


def interpreter(root: Path, architecture: str) -> tuple[str, ...]:
    """Return the command that runs the Python of a root file system here, without entering it."""
    libraries = root / "usr" / "lib" / _MACHINES[architecture]
    [loader] = [*(root / "usr" / "lib64").glob("ld-linux*"), *(root / "usr" / "lib").glob("ld-linux*")][:1]
    binary = str(root / "usr" / "bin" / f"python{PYTHON}")
    return ("env", "-i", f"PYTHONHOME={root}/usr", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1",
            str(loader), "--library-path", str(libraries), binary)  # fmt: skip


def build(architecture: str, root: Path, command: tuple[str, ...], facts: statements.Facts) -> oci.Image:
    """Make the root file system and return its image.

    Args:
        architecture: as Debian and OCI call it.
        root: an empty folder.
        command: what runs a Python of the image's version on this machine.
        facts: what the labels and statements say.
    """
    python = install.Interpreter(f"/usr/bin/python{PYTHON}", PYTHON, wheels.PLATFORMS[f"linux-{architecture}"], command)
    install.replace_modules(python, [root / "usr" / "lib" / f"python{PYTHON}"], root, "/")
    install.install(root / PREFIX, f"/{PREFIX}", python)
    sbom = statements.sbom(facts, architecture, debian.locked(architecture), root / PREFIX)
    inside = root / PREFIX / "share" / "berthmaster.cdx.json"
    inside.parent.mkdir()
    inside.write_bytes(sbom)
    layers = [
        oci.layer(root, facts.epoch, lambda name: not name.startswith("opt/")),
        oci.layer(root, facts.epoch, lambda name: name.startswith("opt/") and not _OURS.match(name)),
        oci.layer(root, facts.epoch, lambda name: bool(_OURS.match(name))),
    ]
    labels = {"VERSION": facts.version, "REVISION": facts.revision}
    settings = oci.final_stage((ROOT / "Containerfile").read_text(), labels)
    settings["Env"].append("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt")  # where OpenSSL of Debian does not look
    return oci.image(architecture, layers, settings, facts.epoch)


def build_all(platforms: list[str], output: Path, facts: statements.Facts) -> None:
    """Build the image of each platform, and write all files of the result."""
    native = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
    if native not in _MACHINES:
        raise debian.DebianError(f"no image can be built on {platform.machine()}: use a machine with {debian.RELEASE}")
    output.mkdir(exist_ok=True)
    images = []
    with tempfile.TemporaryDirectory() as work:
        roots = {each: Path(work) / each for each in [native, *platforms]}
        for architecture, root in roots.items():
            root.mkdir()
            debian.unpack(architecture, root)
        command = interpreter(roots[native], native)
        for architecture in platforms:
            started_s = time.monotonic()
            made = build(architecture, roots[architecture], command, facts)
            images.append(made)
            sizes = [
                sum(sizes)
                for sizes in zip(*((each.unpacked, len(each.compressed)) for each in made.layers), strict=True)
            ]
            sys.stdout.write(
                f"{architecture}: {sizes[0] / 1e6:.0f} MB, {sizes[1] / 1e6:.0f} MB compressed, "
                f"{oci.digest(made.manifest)}, {time.monotonic() - started_s:.0f} s\n"
            )
            sbom = roots[architecture] / PREFIX / "share" / "berthmaster.cdx.json"
            shutil.copy(sbom, output / f"berthmaster-image-{architecture}.cdx.json")
    index = oci.write_layout(output / "berthmaster-oci", images, facts.version)
    name = f"{NAME}:{facts.version}"
    for made in images:
        suffix = "" if made.architecture == native else f"-{made.architecture}"
        oci.write_archive(output / f"berthmaster-image{suffix}.tar", made, name, facts.epoch)
    (output / "berthmaster-image.provenance.json").write_bytes(statements.provenance(facts, name, index, platforms))
    sys.stdout.write(f"index: {index}\n{name}: {output / 'berthmaster-image.tar'}\n")


def git(*words: str) -> str:
    """Run git in the repository and return its output."""
    done = subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit() -> statements.Facts:
    """Return the facts of the checked-out commit. SOURCE_DATE_EPOCH replaces its time."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "berthmaster" / "version.py").read_text())
    suffix = "-changed" if git("status", "--porcelain", "--untracked-files=no") else ""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    return statements.Facts(version[1] if version else "", git("rev-parse", "HEAD") + suffix, epoch)


def main() -> int:
    """Build the image, or write the lock files."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--platform", nargs="+", choices=tuple(_MACHINES), default=["amd64"])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    try:
        if given.lock:
            for architecture in _MACHINES:
                sys.stdout.write(f"{debian.write_lock(architecture)}\n")
        else:
            facts = commit()
            os.environ["SOURCE_DATE_EPOCH"] = str(facts.epoch)  # the builder of the wheel uses it
            build_all(given.platform, given.output, facts)
    except (debian.DebianError, install.InstallError) as problem:
        sys.stderr.write(f"image: {problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
