"""The TypedDicts of the settings agree with the table; mypy reads them in tests/typing/user_project/settings.py."""

from __future__ import annotations

import coterie.client
from tests.client.settings import typed_settings_source


def test_the_typed_dicts_are_made_of_the_table() -> None:
    """`python -m tests.client.settings.typed_settings_source` writes them again."""
    assert typed_settings_source.FILE.read_text("utf-8") == typed_settings_source.source()


def test_the_keys_are_the_settings_of_each_client() -> None:
    keys = coterie.client.ConsumerSettings.__annotations__.keys()
    assert {"group.id", "bootstrap.servers", "sasl.password"} <= keys
    assert not {"acks", "linger.ms"} & keys
    assert coterie.client.AdminSettings.__annotations__.keys() < coterie.client.ProducerSettings.__annotations__.keys()
