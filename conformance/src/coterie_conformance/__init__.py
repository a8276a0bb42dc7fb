"""coterie's own judge and measures: beside Apache Kafka and other clients, under load, under faults, under made-up bytes.

The second distribution of the repository; no module of `coterie` imports it, and no wheel of coterie has it.
"""

__version__ = "0.1.0"
