"""Handlers of groups, offsets and transactions."""
