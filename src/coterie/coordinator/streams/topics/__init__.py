"""The topics of a topology: what the broker creates, how many partitions they have, and where they are served."""
