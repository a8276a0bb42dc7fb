"""Commits as a machine: from the call, or the interval, to the result."""
