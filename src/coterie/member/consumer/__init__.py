"""A member of the consumer protocol (KIP-848) as a machine: the broker assigns, the member reconciles and acknowledges."""
