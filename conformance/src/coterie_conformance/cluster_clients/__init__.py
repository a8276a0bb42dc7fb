"""Groups of other people's clients on a cluster whose brokers are killed, beside the same on Apache Kafka."""
