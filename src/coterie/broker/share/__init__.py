"""Share groups at the leaders of partitions (KIP-932): sessions, the hosted share partitions, and dead letters."""
