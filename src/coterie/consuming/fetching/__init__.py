"""Fetching ahead as a machine: the positions, the sessions and the requests to leaders."""
