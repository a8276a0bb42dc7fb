"""A share partition as a machine (KIP-932): which records of one partition a share group has in flight, and in which state."""
