"""Ring 2: the consumer's side of the group protocol as a machine without IO (Kafka's ConsumerCoordinator)."""
