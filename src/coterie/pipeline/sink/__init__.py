"""The sink: rows of a DataFrame as records."""
