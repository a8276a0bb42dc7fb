"""Scenarios of share partitions: what members do with their records, and the burial of dead ones."""
