"""Share groups at the leaders of partitions (KIP-932): sessions, the hosted share partitions, and the door to their state."""
