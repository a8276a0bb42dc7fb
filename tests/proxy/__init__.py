"""The proxy: its pure parts, and whole brokers, clients and faults behind it in virtual time."""
