"""Groups of the share protocol (KIP-932): members share the records of partitions, and several may have the same one."""
