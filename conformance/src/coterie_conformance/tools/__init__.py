"""Kafka's command-line tools, and our commands, on either broker: outputs and exit codes compared."""
