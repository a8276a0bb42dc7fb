"""A broker's responses beside the recorded responses of a real Apache Kafka: `coterie certify`.

`rules` are named stories about what a group, a producer or a topic must do; `recording` keeps them and the judge's generated
stories with Kafka's answers, as data; `replay` asks a broker the same and compares.
"""
