"""Records of a topic as a page shows them: read from the end, with their payloads by schema."""
