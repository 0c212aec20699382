"""Gathers facts about an installation. Every question has a timeout, and none changes anything."""
