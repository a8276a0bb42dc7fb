"""Clusters in virtual time: brokers that replicate, their controller, a simulated ZooKeeper, clients, and faults."""
