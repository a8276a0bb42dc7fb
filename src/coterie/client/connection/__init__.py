"""Connections to brokers, and the cluster that they make: handshake, requests and responses, leaders and coordinators."""
