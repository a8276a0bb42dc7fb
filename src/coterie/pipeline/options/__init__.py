"""The options of the source and the sink: their table, their types, and the checks."""
