"""What a bench has brokers and clients do: requests, connections, rounds of a client, rows of Spark; and its memory."""
