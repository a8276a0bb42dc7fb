"""Committed offsets: commit, fetch, delete, expire (spec: offsets-topic.md 6-9)."""
