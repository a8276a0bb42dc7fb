"""Groups of the consumer protocol (KIP-848): the broker assigns, and each member is reconciled by its own heartbeats."""
