"""A broker's responses beside the recorded responses of a real Apache Kafka: `coterie certify`.

`recording` has Kafka's responses to named stories about what a group, a producer or a topic must do, and to requests that are
made from the wire's schemas, as data; `replay` sends a broker the same and compares.
"""
