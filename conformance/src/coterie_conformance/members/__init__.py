"""Other clients as members of a group on coterie, by the consumer protocol and on the way to it."""
