"""A proxy before any Kafka: its protocol both ways, the brokers' addresses rewritten, everything else byte for byte.

`frames` cuts the streams, `requests` reads what a frame begins with and has the order of a connection's requests and responses,
`rewriting` knows which responses name brokers: without IO. `passage` joins a client's connection with one to the broker,
and `proxy` has a listener for each broker.
"""
