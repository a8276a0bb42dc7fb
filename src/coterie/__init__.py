"""Kafka's consumer-group system in Python."""
