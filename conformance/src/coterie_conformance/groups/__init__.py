"""Groups, offsets, transactions and log files beside Apache Kafka: seeded stories, request by request."""
