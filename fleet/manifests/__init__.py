"""Manifests from files, folders and standard input."""

from fleet.manifests.document import Document, Limits
from fleet.manifests.files import read_documents
from fleet.manifests.fleet_set import Ignored, Manifests, load

__all__ = ["Document", "Ignored", "Limits", "Manifests", "load", "read_documents"]
