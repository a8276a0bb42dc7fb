"""What the console shows: the interface for its pages, the groups of an observer, and the groups of a broker in its process."""
