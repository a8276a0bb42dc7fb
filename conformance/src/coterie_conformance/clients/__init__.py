"""Scripts on other people's clients, each run on Apache Kafka and on coterie, and what the client returns compared."""
