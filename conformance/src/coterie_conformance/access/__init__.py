"""Requests of a client with few rights, asked of coterie and of Apache Kafka with ACLs: `stories` makes them, `run` asks."""
