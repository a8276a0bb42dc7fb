"""Brokers as actors: a coordinator over a real log, for groups of the classic protocol, of both, and one that is watched."""
