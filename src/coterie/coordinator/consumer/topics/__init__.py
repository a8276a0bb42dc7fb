"""The topics that the coordinator of consumer groups knows, and the hash of them that is stored."""
