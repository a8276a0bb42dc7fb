"""Part `applications`: Kafka Streams and Kafka Connect exactly once, while their processes and the broker are killed."""
