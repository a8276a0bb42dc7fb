"""Where the broker listens and which address clients are to use, from Kafka's listeners and advertised.listeners; and what
these settings, with log.dirs, are where the command line says otherwise.

coterie has one listener for clients, without TLS and SASL: the first of `listeners` whose protocol is PLAINTEXT and
which is not a controller's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.broker_table import BrokerConfig
from coterie.configuration import SettingError
from coterie.text.addresses import format_address

_PLAINTEXT = "PLAINTEXT"
_EVERY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Listener:
    """One of Kafka's listeners; an empty host means every address of the machine. The protocol of most is their name."""

    name: str
    host: str
    port: int
    security_protocol: str = _PLAINTEXT


PLAINTEXT_LISTENER = Listener(_PLAINTEXT, "", 0)


def parse_listeners(setting: str, text: str) -> list[Listener]:
    """NAME://HOST:PORT, several with commas; a plain HOST:PORT is PLAINTEXT's. Raises SettingError, which names the
    ``setting``."""
    listeners = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, scheme, address = item.rpartition("://")
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise SettingError(f"{setting} must be NAME://HOST:PORT or HOST:PORT, not {item!r}")
        name = name.upper() if scheme else _PLAINTEXT
        listeners.append(Listener(name, host.strip("[]"), int(port), name))
    return listeners


def _of_clients(config: BrokerConfig, setting: str, text: str | None) -> list[Listener]:
    """The listeners in the text of a setting that clients can use."""
    controllers = [name.strip().upper() for name in (config.controller_listener_names or "").split(",")]
    pairs = [pair.strip().upper().partition(":") for pair in config.listener_security_protocol_map.split(",")]
    protocols = {name.strip(): protocol.strip() for name, _colon, protocol in pairs}
    every = [
        replace(one, security_protocol=protocols.get(one.name, one.name))
        for one in parse_listeners(setting, text or "")
    ]
    return [one for one in every if one.name not in controllers and one.security_protocol == _PLAINTEXT]


def listen_address(settings: BrokerSettings) -> tuple[str, int]:
    """Where to listen by `listeners`. Raises SettingError where none of them can be served."""
    config = settings.current
    usable = _of_clients(config, "listeners", config.listeners)
    if not usable:
        raise SettingError(
            f"listeners has none of protocol PLAINTEXT, the only one that coterie serves: {config.listeners}; "
            "add one, or say --listen HOST:PORT"
        )
    return usable[0].host or _EVERY_ADDRESS, usable[0].port


def listener_at(settings: BrokerSettings, host: str, port: int) -> Listener:
    """The listener of `listeners` at an address; one without security where --listen has named another address."""
    return _own_listener_at(settings, host, port) or Listener(_PLAINTEXT, host, port)


def _own_listener_at(settings: BrokerSettings, host: str, port: int) -> Listener | None:
    config = settings.current
    own = _of_clients(config, "listeners", config.listeners)[:1]
    return next((one for one in own if (one.host or _EVERY_ADDRESS, one.port) == (host, port)), None)


def effective_log_dirs(settings: BrokerSettings, data: Path | None) -> dict[str, str]:
    """`log.dirs` of a broker whose logs are in ``data``, None for memory; empty where the settings have it."""
    config = settings.current
    folder = "memory" if data is None else str(data)
    return {} if folder == (config.log_dirs or config.log_dir) else {"log.dirs": folder}


def effective_listeners(settings: BrokerSettings, address: tuple[str, int], bound: tuple[str, int]) -> dict[str, str]:
    """`listeners` of a broker that was to listen at ``address`` and does at ``bound``; empty where the settings have it."""
    if _own_listener_at(settings, *address) is not None:
        return {}
    return {"listeners": f"{_PLAINTEXT}://{format_address(*bound)}"}


def advertised_address(settings: BrokerSettings) -> tuple[str, int] | None:
    """The address that clients are to connect to; None: the one at which their connection arrived. Raises SettingError."""
    config = settings.current
    usable = _of_clients(config, "advertised.listeners", config.advertised_listeners)
    if not usable and config.advertised_listeners:
        raise SettingError(
            f"advertised.listeners has none of protocol PLAINTEXT: {config.advertised_listeners}; add HOST:PORT"
        )
    names = [one.name for one in _of_clients(config, "listeners", config.listeners)]
    chosen = next((one for one in usable if one.name in names[:1]), usable[0] if usable else None)
    return None if chosen is None else (chosen.host, chosen.port)
