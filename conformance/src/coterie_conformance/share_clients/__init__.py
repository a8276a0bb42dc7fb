"""Share consumers of four clients, and Kafka's two tools, on Apache Kafka and on coterie: `programs` runs them, `stories`
has what they do, `run` compares."""
