"""The table of clients in the stories of `certify-client` has the ten clients, and no finding without a cause."""

from __future__ import annotations

from reference_pages import certified_clients

from coterie_conformance.certified_clients.programs import CERTIFIED_PROGRAMS


def test_every_client_has_its_row() -> None:
    """Of Java one version is enough."""
    shown = certified_clients.certified_clients()
    clients = {program.name.split()[0].rstrip(",") for program in CERTIFIED_PROGRAMS}
    assert [client for client in sorted(clients) if f"\n| {client}" not in shown] == []
    assert len(clients) == 10


def test_every_wrong_story_has_a_cause() -> None:
    assert "not explained yet" not in certified_clients.certified_defects()
