"""What runs beside coterie, or is coterie in a process of its own: Apache Kafka, kfake, Java and Go programs."""
