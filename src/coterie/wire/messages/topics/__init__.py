"""Topics and their partitions: metadata, creation, deletion, elections and reassignments."""
