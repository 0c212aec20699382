"""The revisions. A released one never changes."""
