"""Committed offsets: commit, fetch, delete, expire (scenarios: tests/spec/offsets.txt)."""
