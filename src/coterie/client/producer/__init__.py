"""The producer: drivers of its machines, and the futures of its records."""
