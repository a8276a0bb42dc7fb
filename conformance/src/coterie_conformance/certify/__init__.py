"""What `coterie certify` compares with: recordings made of Apache Kafka, and the scoreboard of other brokers."""
