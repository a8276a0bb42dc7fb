"""Whether a live group may change its assignor or its protocol, as rules."""
