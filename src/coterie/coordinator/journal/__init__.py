"""The journal: what happened to groups, as lines of JSON."""
