"""Scenario languages of `tests/spec` for other subjects than that of `coterie.laboratory.scenario`, a group and its broker."""
