"""The share coordinator (KIP-932): it keeps the state of partitions in share groups, in `__share_group_state`."""
