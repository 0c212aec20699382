"""Certificates: a certificate authority, the leaves it issues, and the bundles that clients trust."""
