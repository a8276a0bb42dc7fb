"""Settings of topics and brokers, quotas of clients, and feature levels."""
