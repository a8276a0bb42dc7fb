"""What several machines share: scripts, pauses between attempts, the cluster's metadata, and the ownership of partitions."""
