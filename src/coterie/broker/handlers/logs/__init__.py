"""Handlers of records: Produce, Fetch, look-ups of offsets, deletion."""
