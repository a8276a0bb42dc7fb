"""Requests about offsets: listed, looked up, committed and deleted."""
