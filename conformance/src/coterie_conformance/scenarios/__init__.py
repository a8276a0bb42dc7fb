"""The scenario language of `tests/spec`: `groups` is of a group and its broker, the others are of one other subject each."""
