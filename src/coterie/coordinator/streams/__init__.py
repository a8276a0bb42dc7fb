"""Groups of Kafka Streams (KIP-1071): the broker assigns the tasks of a topology to the members."""
