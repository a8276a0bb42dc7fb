"""Kafka's rules of access (KIP-11, KIP-290): `acls` has the entries and filters, `authorizer` decides by them."""
