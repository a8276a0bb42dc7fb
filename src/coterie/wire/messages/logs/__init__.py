"""Partitions' records: written, fetched, looked up by time, deleted; and the folders that have them."""
