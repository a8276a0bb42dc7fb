"""Brokers of a cluster: what the controller sends them, and who they are."""
