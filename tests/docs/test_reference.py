"""The reference's tables hold every row of the tables in the code, each with its meaning. Each call of Kafka's Admin is
one of ours or has a reason, and each of ours is named by Kafka's in snake_case."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest
from reference_pages import (
    command_line,
    history,
    json_output,
    markdown,
    modules,
    protocol,
    public_api,
    root_documents,
    settings,
    state_diagrams,
)
from reference_pages.admin_calls import CALLS, OWN
from reference_pages.error_remedies import REMEDIES, remedy_text
from reference_pages.expansion import PARTS, expand

import coterie.client
from coterie.broker.requests.unserved import UNSERVED
from coterie.broker.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from coterie.broker.settings.tables.resource_tables import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from coterie.cli.parts.json_documents import json_documents
from coterie.client import Admin, KafkaError
from coterie.client.admin.each import Each
from coterie.client.blocking import BlockingAdmin
from coterie.client.blocking.admin_each import BlockingEach
from coterie.client.settings.settings import CLIENT_SETTINGS
from coterie.coordinator.journal.line import CAUSES, EVENTS, FIELDS, JournalLine
from coterie.coordinator.state import LEGAL_PREDECESSORS, Phase
from coterie.member.consumer.state import CONSUMER_SUCCESSORS, ConsumerStage
from coterie.member.state import KAFKA_STATES, LEGAL_SUCCESSORS, NOT_TAKING_PART, Stage
from coterie.observer.machine.rules import RULES
from coterie.pipeline.history.tables import COLUMNS, FLEET_COLUMNS, FLEET_TABLES, OWN_COLUMNS, TABLES
from coterie.wire.apis import APIS
from coterie.wire.errors import ErrorCode

DOCS = Path(__file__).parents[2] / "docs"
# The public methods of Kafka's interface, from its jar.
HEADING, *KAFKA = Path(__file__).with_name("kafka_admin.txt").read_text().splitlines()
# Ours that have no name of Kafka's though they do what one of its calls does: a part of its result.
ARGUMENTS_OF_PARTS = {"partitions", "list_consumer_group_offsets_metadata"}


def first_cells(tables: str) -> list[str]:
    """The first cell of each row, without code type; rows of headers and rules left out."""
    lines = tables.splitlines()
    rows = [line for line, after in zip(lines, [*lines[1:], ""], strict=True) if not after.startswith("|---")]
    return [row.split(" | ")[0].removeprefix("| ").strip("`") for row in rows if row.startswith("| ")]


def test_every_setting_has_a_row() -> None:
    broker = first_cells(settings.broker_settings()) + first_cells(settings.broker_settings_without_effect())
    assert sorted(broker) == sorted(BROKER_SETTINGS)
    assert first_cells(settings.topic_settings()) == sorted(TOPIC_SETTINGS)
    assert first_cells(settings.group_settings()) == sorted(GROUP_SETTINGS)
    assert first_cells(settings.client_metrics_settings()) == list(CLIENT_METRICS_SETTINGS)
    assert sorted(first_cells(settings.client_settings())) == sorted(CLIENT_SETTINGS)


def test_every_setting_has_a_meaning_or_a_reason() -> None:
    assert not [s.name for s in BROKER_SETTINGS.values() if not s.documentation and not s.no_effect]
    assert not [s.name for s in CLIENT_SETTINGS.values() if not s.documentation.endswith(".")]


def test_every_api_is_served_or_has_a_reason() -> None:
    assert first_cells(protocol.apis()) == [str(key) for key in sorted(APIS)]
    assert first_cells(protocol.unserved_apis()) == [str(key) for key in sorted(UNSERVED)]
    assert not APIS.keys() & UNSERVED.keys()
    assert all(api.reason for api in UNSERVED.values())


def test_every_error_has_a_remedy() -> None:
    assert first_cells(protocol.error_codes()) == [str(int(code)) for code in sorted(ErrorCode)]
    exported = (getattr(coterie.client, name) for name in coterie.client.__all__)
    errors = {kind.__name__ for kind in exported if isinstance(kind, type) and issubclass(kind, KafkaError)}
    assert {cell.strip("`") for cell in first_cells(protocol.error_classes())} == errors
    assert all(remedy_text(code).endswith(".") for code in ErrorCode)
    assert set(REMEDIES) <= set(ErrorCode)


def test_every_field_of_the_journal_has_a_meaning() -> None:
    assert list(FIELDS) == [field.name for field in fields(JournalLine)]
    assert first_cells(history.journal_fields()) == list(FIELDS)
    assert first_cells(history.journal_events()) == list(EVENTS)
    assert first_cells(history.journal_causes()) == list(CAUSES)
    assert first_cells(history.observer_rules()) == list(RULES)


def test_every_column_of_the_history_has_a_meaning() -> None:
    columns = {(name, column) for name, table in TABLES.items() for column, _ in history.columns_of(table.schema)}
    assert {column for _, column in columns} == set(COLUMNS) | {column for _, column in OWN_COLUMNS}
    assert set(OWN_COLUMNS) <= columns
    assert len(first_cells(history.history_tables())) == len(columns)


def test_every_column_of_a_fleet_has_a_meaning() -> None:
    columns = [(name, column) for name, table in FLEET_TABLES.items() for column, _ in history.columns_of(table.schema)]
    assert {column for _, column in columns} == {*FLEET_COLUMNS, "group"}
    assert len(first_cells(history.fleet_tables())) == len(columns)


def test_every_table_that_the_history_job_writes_is_described() -> None:
    job = (DOCS.parent / "src/coterie/pipeline/history/job.py").read_text()
    assert set(TABLES) == set(re.findall(r'write\("(\w+)"', job)) | {"commits", "group_log"}


def test_every_command_is_on_the_page() -> None:
    page = command_line.command_line()
    paths = [path for path, command, _ in command_line.commands() if not isinstance(command, click.Group)]
    assert {"coterie broker", "coterie groups history", "coterie pipeline what-if"} <= set(paths)
    assert all(re.search(rf"^#+ {path}$", page, re.M) for path in paths)


def test_every_json_document_is_on_the_page() -> None:
    assert first_cells(json_output.json_commands()) == [f"coterie {name}" for name in sorted(json_documents())]
    page = json_output.json_objects()
    assert "### GroupDocument\n" in page
    assert "| `lag` | integer or null |" in page
    linked = set(re.findall(r"\(#(\w+)\)", json_output.json_commands() + page))
    assert linked == {name.lower() for name in re.findall(r"^### (\w+)$", page, re.M)}


def test_every_exported_name_is_on_the_page() -> None:
    page = expand((DOCS / "reference/python-api.md").read_text("utf-8"))
    for name, module in ((n, importlib.import_module(n)) for n in public_api.MODULES if n != "coterie"):
        for export in {*public_api.exports(module)} - {"ErrorCode"}:
            assert f":: {name}.{export}\n" in page


def edges_of(svg: str) -> set[tuple[str, str]]:
    return set(re.findall(r'data-from="(\w+)" data-to="(\w+)"', svg))


def test_the_picture_of_a_group_is_its_table() -> None:
    drawn = edges_of(state_diagrams.group_states())
    assert drawn == {(b.value, a.value) for a, befores in LEGAL_PREDECESSORS.items() for b in befores}
    assert set(state_diagrams.GROUP_LAYOUT) == set(Phase)


def test_the_picture_of_a_member_is_its_table_without_the_ways_out() -> None:
    drawn = edges_of(state_diagrams.member_stages())
    assert drawn == {(b.name, a.name) for b, afters in LEGAL_SUCCESSORS.items() for a in afters - NOT_TAKING_PART}
    assert set(state_diagrams.MEMBER_LAYOUT) == set(Stage) == set(LEGAL_SUCCESSORS)
    assert first_cells(state_diagrams.member_stages()) == [stage.name for stage in LEGAL_SUCCESSORS]
    assert set(KAFKA_STATES) == set(Stage)
    cells = [*state_diagrams.MEMBER_LAYOUT.values()]
    assert len(set(cells)) == len(cells)


def test_the_picture_of_a_member_of_the_consumer_protocol_is_its_table_without_the_exits() -> None:
    drawn, exits = edges_of(state_diagrams.consumer_member_stages()), state_diagrams.CONSUMER_MEMBER_EXITS
    assert drawn == {(b.name, a.name) for b, afters in CONSUMER_SUCCESSORS.items() for a in afters - exits}
    assert set(state_diagrams.CONSUMER_MEMBER_LAYOUT) == set(ConsumerStage) - {ConsumerStage.FATAL}
    assert first_cells(state_diagrams.consumer_member_stages()) == [stage.name for stage in CONSUMER_SUCCESSORS]
    cells = [*state_diagrams.CONSUMER_MEMBER_LAYOUT.values()]
    assert len(set(cells)) == len(cells)


def test_every_part_is_on_a_page_and_every_page_names_parts_that_exist() -> None:
    pages = "\n".join(path.read_text("utf-8") for path in DOCS.rglob("*.md") if "_build" not in path.parts)
    assert set(re.findall(r"^<!-- generated: (\w+) -->$", pages, re.M)) == set(PARTS)
    with pytest.raises(KeyError):
        expand("<!-- generated: no_such_part -->")


def test_links_of_root_documents_lead_to_pages_of_the_site() -> None:
    for name, target in root_documents.PAGES.items():
        assert (DOCS / target.removeprefix("/")).is_file(), name
    page = root_documents.page("CONTRIBUTING.md")
    assert "[ARCHITECTURE.md](/contributing/architecture.md)" in page
    assert "(/decisions/index.md)" in page
    assert "(LICENSE)" not in page


def test_cells_are_escaped() -> None:
    assert markdown.text("__a* of `x_y`\n| <b>") == r"\_\_a\* of `x_y` \| \<b\>"
    assert markdown.code("a|b") == r"`a\|b`"
    assert markdown.code(None) == ""


def test_every_file_of_the_package_is_on_the_page_of_modules() -> None:
    page = modules.modules()
    for path in modules.PACKAGE.rglob("*.py"):
        folder = path.parent.relative_to(modules.PACKAGE).as_posix()
        section = page.partition(f"## `{'coterie' if folder == '.' else folder}/`")[2].partition("\n## ")[0]
        row = "" if path.stem == "__init__" else f"| `{path.stem}` | "
        assert section, path
        assert row in section, path


def test_the_first_sentence_of_a_docstring_is_shown() -> None:
    docstring = "Kafka 2.6's nodes\nof ``a.b``: two parts. `x` has more.\n\nOther."
    assert modules.first_sentence(docstring) == "Kafka 2.6's nodes of `a.b`: two parts"
    assert modules.first_sentence("Two parts: " + "word " * modules.LONG) == "Two parts"


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


OURS = public(Admin) | {f"each.{name}" for name in public(Each)}


def test_the_table_has_every_call_of_kafkas() -> None:
    assert (re.search(r"(\d+) names$", HEADING) or [""])[1] == str(len(KAFKA))
    assert sorted(CALLS) == sorted(KAFKA)


def test_each_call_is_one_of_ours_or_has_a_reason() -> None:
    for name, call in CALLS.items():
        assert call.ours or len(call.note) >= 20, name
        assert set(call.ours) - {"__init__"} <= OURS, name


def test_each_of_ours_stands_in_the_table() -> None:
    named = {method for call in CALLS.values() for method in call.ours} - {"__init__"}
    assert named | OWN.keys() == OURS
    assert not named & OWN.keys()


def test_a_call_of_both_has_kafkas_name() -> None:
    """One thing: without the plural's s, as of a call on one."""
    kafka = {snake_case(name) for name in KAFKA}
    singular = {re.sub(r"s$", "", name) for name in kafka}
    for method in OURS - OWN.keys() - ARGUMENTS_OF_PARTS:
        name = method.removeprefix("each.")
        assert name in kafka | singular, f"{method} has no name of Kafka's"
        assert not method.startswith("each.") or name in kafka, f"{method} takes many"


def test_the_blocking_admin_has_the_same() -> None:
    assert public(BlockingAdmin) == public(Admin)
    assert public(BlockingEach) == public(Each)
