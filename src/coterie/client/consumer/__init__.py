"""The consumer: drivers of its machines, and what its callers meet of them."""
