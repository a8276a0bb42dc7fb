"""Members of groups as actors, what they commit and what they read."""
