"""The settings of a share consumer (Kafka's ShareConsumerConfig): those of a consumer, without what is the group's."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.client.errors import ConfigError
from coterie.client.settings.protocols import SHARE_PROTOCOL, require_allowed
from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSettings, read_client_settings


def share_settings(given: Mapping[str, object]) -> ClientSettings:
    """As `client_settings`, of a share consumer. Raises ConfigError also without a group.id."""
    settings = read_client_settings(ClientSettings, CLIENT_SETTINGS, given)
    require_allowed({name.replace("_", ".") for name in given}, SHARE_PROTOCOL)
    if settings.group_id is None or not settings.group_id.strip():
        raise ConfigError("a share consumer needs a group.id that is not blank")
    return settings
