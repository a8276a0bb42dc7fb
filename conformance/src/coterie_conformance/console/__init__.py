"""`coterie console` in a browser, over clusters of coterie and of Apache Kafka."""
