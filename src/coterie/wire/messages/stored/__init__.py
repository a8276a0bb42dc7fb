"""Bytes that are kept: keys and values of the internal topics, what members hand to each other, snapshots of producers."""
