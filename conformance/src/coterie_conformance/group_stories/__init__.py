"""One group in the laboratory under random faults, a story for each seed: members of the classic protocol, or of both."""
