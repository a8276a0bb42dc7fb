"""The tables of settings, with Kafka's names, kinds and defaults."""
