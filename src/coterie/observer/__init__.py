"""Why groups rebalance on any Kafka, seen from outside: brokers' logs, `__consumer_offsets`, and what brokers describe."""
