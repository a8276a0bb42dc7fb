"""The journal's fields, events and causes, and the columns of the history's tables."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.lint.health_rules import HEALTH_RULES
from coterie.coordinator.journal.line import CAUSES, EVENTS, FIELDS
from coterie.coordinator.journal.patterns import EVIDENCE
from coterie.observer.machine.rules import RULES
from coterie.pipeline.history.tables import COLUMNS, FLEET_COLUMNS, FLEET_TABLES, OWN_COLUMNS, TABLES, HistoryTable
from reference_pages.markdown import code, sentence, table, text


def journal_fields() -> str:
    return table(("field", "meaning"), ((code(name), sentence(text(meaning))) for name, meaning in FIELDS.items()))


def journal_events() -> str:
    return table(("event", "meaning"), ((code(name), sentence(text(meaning))) for name, meaning in EVENTS.items()))


def journal_causes() -> str:
    rows = ((code(name), text(words)) for name, words in CAUSES.items())
    return table(("kind", "as `groups history` prints it, after the member"), rows)


def journal_evidence() -> str:
    rows = ((code(name), text(meaning)) for name, meaning in EVIDENCE.items())
    return table(("evidence", "meaning"), rows)


def observer_rules() -> str:
    """What the observer infers, by rule."""
    rows = ((code(name), text(rule.seen), text(rule.concluded), text(rule.sure)) for name, rule in RULES.items())
    return table(("rule", "what is seen", "what is inferred", "how sure"), rows)


def lint_rules() -> str:
    """What hurts a group as it is, by rule."""
    rows = ((code(rule.name), "yes" if rule.blocks else "no", rule.meaning) for rule in HEALTH_RULES)
    return table(("rule", "blocks", "holds where"), rows)


def columns_of(schema: str) -> list[tuple[str, str]]:
    """(name, type) of each column of a schema in Spark's DDL."""
    return [(name, kind) for name, _, kind in (column.strip().partition(" ") for column in schema.split(","))]


def history_tables() -> str:
    return _tables(TABLES, COLUMNS)


def fleet_tables() -> str:
    """Of `coterie pipeline fleet`."""
    return _tables(FLEET_TABLES, COLUMNS | FLEET_COLUMNS)


def _tables(tables: Mapping[str, HistoryTable], columns: Mapping[str, str]) -> str:
    parts = []
    for name, history_table in tables.items():
        parts.append(f"## {name}\n\n{text(history_table.meaning)}\n")
        rows = (
            (code(column), code(kind), sentence(text(OWN_COLUMNS.get((name, column)) or columns[column])))
            for column, kind in columns_of(history_table.schema)
        )
        parts.append(table(("column", "type", "meaning"), rows))
    return "\n".join(parts)
