"""Streams groups (KIP-1071): members of Kafka Streams join and beat, and the broker assigns them tasks of their topology."""
