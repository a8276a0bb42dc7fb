"""Questions made from the wire's schemas, asked of two brokers side by side: `./run conformance --part everything`.

`question` is a request as data, `side` asks it of one broker and writes the response with symbols (`responses`), `comparison`
compares two brokers' responses, `systematic` and `moves` make the questions, `shrinking` makes a difference short, and
`judge` runs them all against one version of Apache Kafka.
"""
