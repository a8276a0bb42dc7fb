"""The groups over HTTP, for people and for Prometheus."""
