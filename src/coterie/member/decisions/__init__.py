"""The decisions of a member: what each of its inputs comes to, and what its state calls for."""
