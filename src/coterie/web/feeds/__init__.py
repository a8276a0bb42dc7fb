"""What the console shows: the interface of its pages, of an observer's groups, and of those that a broker hands."""
