"""One file per API, in Kafka's name, in a room by its subject; each docstring says what its versions added."""
