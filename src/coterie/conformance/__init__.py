"""Apache Kafka as the judge: the real brokers, started here, asked the same questions as coterie."""
