"""Certificates: an authority, and what it issues."""
