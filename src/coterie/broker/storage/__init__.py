"""The data folder: the disk and its small files, topics with their partitions and logs, fsync and compaction."""
