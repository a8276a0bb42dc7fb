"""The group coordinator's driver: shards over the partitions of `__consumer_offsets`, loading, timers and the journal."""
