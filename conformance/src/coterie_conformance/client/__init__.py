"""Our client's promises as checks, carried out on coterie and on Apache Kafka."""
