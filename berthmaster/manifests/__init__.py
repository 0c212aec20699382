"""Manifests from files, folders and standard input."""

from berthmaster.manifests.document import Document, Limits
from berthmaster.manifests.files import read_documents
from berthmaster.manifests.fleet_set import Ignored, Manifests, load

__all__ = ["Document", "Ignored", "Limits", "Manifests", "load", "read_documents"]
