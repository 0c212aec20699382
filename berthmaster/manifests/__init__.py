"""Manifests: reading of files, folders and standard input, in YAML and JSON."""

from berthmaster.manifests.document import Document
from berthmaster.manifests.files import objects_in, read_documents
from berthmaster.manifests.limits import ManifestLimits
from berthmaster.manifests.loader import load_manifests, manifests_of
from berthmaster.manifests.manifests import Ignored, Manifests
from berthmaster.manifests.overlay import overlaid

__all__ = [
    "Document", "Ignored", "ManifestLimits", "Manifests", "load_manifests", "manifests_of", "objects_in",
    "overlaid", "read_documents",
]  # fmt: skip
