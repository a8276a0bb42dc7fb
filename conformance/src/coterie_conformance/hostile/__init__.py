"""Hostile clients beside a bystander: what each attack costs a client that only sends heartbeats, and the broker's process.

`attacks` what is done, `bystander` who notices, `target` the broker that is attacked, `run` one after the other as a table.
"""
