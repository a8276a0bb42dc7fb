"""Tables in files: their schemas, and their rows read without Spark."""
