"""Tables in files: their schemas, read and exported without Spark."""
