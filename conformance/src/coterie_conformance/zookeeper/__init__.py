"""The high-level consumer and the message formats of the time of ZooKeeper, beside Kafka's own."""
