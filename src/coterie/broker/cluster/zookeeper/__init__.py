"""The session with ZooKeeper, and what a broker reads and writes there."""
