"""Ring 0, bytes: how Kafka's messages are declared, encoded and decoded, and what its errors are called."""
