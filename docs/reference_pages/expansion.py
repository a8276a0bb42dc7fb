"""Puts the generated parts into pages: a line `<!-- generated: NAME -->` becomes what `PARTS[NAME]` returns, a line
`<!-- document: NAME -->` that document of the repository's root."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reference_pages import (
    admin_calls,
    certified_clients,
    command_line,
    control_api,
    history,
    json_output,
    modules,
    navigation,
    observed_stories,
    protocol,
    python_api,
    root_documents,
    settings,
    site_map,
    state_diagrams,
)
from reference_pages.playground_site import assemble

PARTS: dict[str, Callable[[], str]] = {
    "sections": site_map.sections,
    "broker_settings": settings.broker_settings,
    "broker_settings_without_effect": settings.broker_settings_without_effect,
    "topic_settings": settings.topic_settings,
    "group_settings": settings.group_settings,
    "client_metrics_settings": settings.client_metrics_settings,
    "client_settings": settings.client_settings,
    "apis": protocol.apis,
    "unserved_apis": protocol.unserved_apis,
    "error_classes": protocol.error_classes,
    "error_codes": protocol.error_codes,
    "journal_fields": history.journal_fields,
    "journal_events": history.journal_events,
    "journal_causes": history.journal_causes,
    "journal_evidence": history.journal_evidence,
    "lint_rules": history.lint_rules,
    "certified_clients": certified_clients.certified_clients,
    "certified_defects": certified_clients.certified_defects,
    "observed_stories": observed_stories.observed_stories,
    "observer_rules": history.observer_rules,
    "history_tables": history.history_tables,
    "fleet_tables": history.fleet_tables,
    "command_line": command_line.command_line,
    "control_operations": control_api.control_operations,
    "json_commands": json_output.json_commands,
    "json_objects": json_output.json_objects,
    "python_client": python_api.python_client,
    "python_blocking": python_api.python_blocking,
    "python_pipeline": python_api.python_pipeline,
    "python_testing": python_api.python_testing,
    "group_states": state_diagrams.group_states,
    "member_stages": state_diagrams.member_stages,
    "consumer_member_stages": state_diagrams.consumer_member_stages,
    "admin_calls": admin_calls.admin_calls,
    "own_admin_calls": admin_calls.own_admin_calls,
    "modules": modules.modules,
}
_MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.M)
_DOCUMENT = re.compile(r"^<!-- document: ([\w.]+) -->$", re.M)


def expand(text: str) -> str:
    """The page with its generated parts. Raises KeyError for a part that does not exist."""
    text = _DOCUMENT.sub(lambda marker: root_documents.page(marker[1]), text)
    return _MARKER.sub(lambda marker: PARTS[marker[1]](), text)


def _expand_source(app: Any, name: str, source: list[str]) -> None:
    source[0] = expand(source[0])


def _add_playground(app: Any, failure: Exception | None) -> None:
    """The page of the playground is no page of Sphinx's. Its Pyodide comes from the cache alone: a build needs no network."""
    if failure is None and app.builder.name == "html":
        assemble(Path(app.outdir) / "playground", fetch=False)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _expand_source)
    app.connect("html-page-context", navigation.prepare, priority=400)  # the theme's is 500
    app.connect("build-finished", _add_playground)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
