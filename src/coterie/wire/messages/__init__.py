"""One file per API, in Kafka's name; each docstring says what its versions added."""
