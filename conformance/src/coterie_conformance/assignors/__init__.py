"""Our assignors beside Kafka's own classes, on random and on large groups."""
