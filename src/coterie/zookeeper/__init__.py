"""The ZooKeeper high-level consumer (Kafka 0.8) as a machine: registration, ownership, rebalance, offsets."""
