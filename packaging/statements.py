"""What a release says about an image: an SBOM (CycloneDX) and a provenance statement (SLSA in an in-toto statement)."""

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

import debian
import oci

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Facts:
    """The version, the commit and its time in seconds since 1970.

    A commit with changes ends in ``-changed``.
    """

    version: str
    revision: str
    epoch: int

    @property
    def changed(self) -> bool:
        """Whether the checkout differs from the commit."""
        return self.revision.endswith("-changed")

    @property
    def time(self) -> str:
        """The time as RFC 3339."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sbom(facts: Facts, architecture: str, packages: Iterable[debian.Package], environment: Path) -> bytes:
    """Return the SBOM of an image: the Debian packages and the Python distributions in it."""
    [site] = environment.glob("lib/python*/site-packages")
    found = sorted(distributions(path=[str(site)]), key=lambda each: each.metadata["Name"].lower())
    components = [_distribution(each) for each in found]
    for package in packages:
        purl = f"pkg:deb/debian/{package.name}@{package.version}?arch={architecture}&distro=debian-12"
        component = {"name": package.name, "version": package.version, "purl": purl, "bom-ref": purl}
        components.append({"type": "library", **component})
    name = f"berthmaster {facts.version} {facts.revision} {architecture}"
    return oci.encoded({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}",
        "metadata": {
            "timestamp": facts.time,
            "component": {"type": "container", "name": "berthmaster", "version": facts.version},
        },
        "components": components,
    })  # fmt: skip


def provenance(facts: Facts, name: str, digest: str, platforms: Sequence[str]) -> bytes:
    """Return the statement that says what the image with a digest was built from."""
    pins = ("requirements/image.txt", "requirements/build.txt", "console/assets/package-lock.json", "Containerfile")
    materials = [{"uri": each, "digest": {"sha256": _checksum(ROOT / each)}} for each in pins]
    for architecture in platforms:
        for package in debian.locked(architecture):
            uri = f"pkg:deb/debian/{package.name}@{package.version}?arch={architecture}"
            materials.append({"uri": uri, "digest": {"sha256": package.sha256}})
    source = {"uri": "git+berthmaster", "digest": {"gitCommit": facts.revision}}
    return oci.encoded({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make image",
                "externalParameters": {"platforms": list(platforms), "SOURCE_DATE_EPOCH": facts.epoch},
                "resolvedDependencies": [source, *materials],
            },
            "runDetails": {"builder": {"id": "packaging/image.py"}},
        },
    })  # fmt: skip


def _distribution(found: Distribution) -> dict[str, Any]:
    name, version = found.metadata["Name"].lower().replace("_", "-"), found.version
    purl = f"pkg:pypi/{name}@{version}"
    licence = found.metadata.get("License-Expression") or found.metadata.get("License")
    known = {"licenses": [{"license": {"name": licence}}]} if licence and len(licence) < 100 else {}
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl, **known}


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
