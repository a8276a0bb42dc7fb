"""Ring 2: a partition's log over a file system passed in. No clock: the caller passes the time."""
