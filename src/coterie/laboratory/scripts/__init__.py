"""Actors of machines that are scripts: consumers on ZooKeeper and on RocketMQ, with the servers that they talk to."""
