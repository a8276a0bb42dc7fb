"""Where clients wait: clocks, pauses between attempts, and what the log says of long waits."""
