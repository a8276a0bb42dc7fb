"""Cost as it grows: the curves beside Apache Kafka and kfake, and their page."""
