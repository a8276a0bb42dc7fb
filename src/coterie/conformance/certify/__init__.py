"""A broker's answers beside those that a real Apache Kafka was recorded with: `coterie certify`.

`rules` are named stories about what a group, a producer or a topic must do; `recording` keeps them and the judge's generated
stories with Kafka's answers, as data; `replay` asks a broker the same and compares.
"""
