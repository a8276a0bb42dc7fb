"""Ring 2: a partition's log over a file system that it is given. No clock: the caller says what time it is."""
