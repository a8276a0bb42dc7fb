"""The share consumer (KIP-932): members of a share group read the same partitions, each record by one of them at a time."""
