"""The decisions of a member: what each of its inputs leads to, and what its state calls for."""
