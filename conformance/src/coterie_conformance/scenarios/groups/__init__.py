"""Scenarios of a group and its broker: the language, its requests and transactions, and what is expected of responses."""
