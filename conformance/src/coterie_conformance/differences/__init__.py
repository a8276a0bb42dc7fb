"""The table of known differences from Apache Kafka, each with its reason, and the functions that recognise them."""
