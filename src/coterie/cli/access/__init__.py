"""Who may do what, on any Kafka: `coterie acls` and `coterie quotas`."""
