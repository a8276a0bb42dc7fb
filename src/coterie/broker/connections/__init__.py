"""The connections of clients: bytes in, requests in order to their handlers, bytes out."""
