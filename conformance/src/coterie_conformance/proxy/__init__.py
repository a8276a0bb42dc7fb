"""Other people's clients with a proxy between them and the broker, beside the same without it."""
