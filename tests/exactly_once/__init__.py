"""Copies of a topic, exactly once by transactions, by several clients while the broker dies at chosen requests."""
