"""The share coordinator in the broker: `__share_group_state`, and the requests to the coordinators of other brokers."""
