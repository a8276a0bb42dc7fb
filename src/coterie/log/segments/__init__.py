"""Segments: one open, its indexes, and how a log's are opened, surveyed and recovered."""
