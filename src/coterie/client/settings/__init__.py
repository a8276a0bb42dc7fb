"""The settings of clients: their table, their types, and the TypedDicts made of it."""
