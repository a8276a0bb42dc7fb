"""Ring 2: a producer as a machine. Records wait in batches, batches go out in requests, and every batch has one end."""
