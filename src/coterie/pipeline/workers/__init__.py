"""The Python workers of Spark's tasks: their daemon, and their interpreter."""
