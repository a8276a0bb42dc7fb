"""Part `cluster`: brokers of Apache Kafka 2.6.3 and of coterie in one cluster, on one ZooKeeper."""
