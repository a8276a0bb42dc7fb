"""Rolling restarts of real consumers on Apache Kafka, beside what `coterie groups predict` says of them."""
