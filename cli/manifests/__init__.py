"""Manifests from files, folders and standard input."""

from cli.manifests.document import Document, Limits
from cli.manifests.files import read_documents
from cli.manifests.fleet_set import Ignored, Manifests, load

__all__ = ["Document", "Ignored", "Limits", "Manifests", "load", "read_documents"]
