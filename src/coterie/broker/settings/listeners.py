"""Where the broker listens and which address clients are to use, from Kafka's listeners and advertised.listeners; and what
these settings, with log.dirs, are where the command line says otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.tables.broker_table import BrokerConfig
from coterie.broker.settings.tables.security_table import PROTOCOLS
from coterie.configuration import SettingError
from coterie.text.addresses import format_address

PLAINTEXT = "PLAINTEXT"
_EVERY_ADDRESS = "0.0.0.0"
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Listener:
    """One of Kafka's listeners; an empty host means every address of the machine. The protocol of most is their name."""

    name: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT

    @property
    def address(self) -> Address:
        """Where to listen."""
        return self.host or _EVERY_ADDRESS, self.port

    @property
    def has_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def text(self) -> str:
        """NAME://HOST:PORT."""
        return f"{self.name}://{format_address(self.host, self.port)}"


PLAINTEXT_LISTENER = Listener(PLAINTEXT, "", 0)


def parse_listeners(setting: str, text: str) -> list[Listener]:
    """NAME://HOST:PORT, several with commas; a plain HOST:PORT is PLAINTEXT's. Raises SettingError, which names the
    ``setting``."""
    listeners = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, scheme, address = item.rpartition("://")
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise SettingError(f"{setting} must be NAME://HOST:PORT or HOST:PORT, not {item!r}")
        name = name.upper() if scheme else PLAINTEXT
        listeners.append(Listener(name, host.strip("[]"), int(port), name))
    return listeners


def _of_clients(config: BrokerConfig, setting: str, text: str | None) -> list[Listener]:
    """The listeners in the text of a setting that clients can use. Raises SettingError."""
    controllers = [name.strip().upper() for name in (config.controller_listener_names or "").split(",")]
    pairs = [pair.strip().upper().partition(":") for pair in config.listener_security_protocol_map.split(",")]
    protocols = {name.strip(): protocol.strip() for name, _colon, protocol in pairs}
    every = [
        replace(one, security_protocol=protocols.get(one.name, one.name))
        for one in parse_listeners(setting, text or "")
        if one.name not in controllers
    ]
    for one in every:
        if one.security_protocol not in PROTOCOLS:
            raise SettingError(
                f"listener.security.protocol.map must have {one.name}:PROTOCOL for the listener {one.text}, "
                f"with one of {', '.join(PROTOCOLS)}"
            )
    return every


def client_listeners(settings: BrokerSettings) -> list[Listener]:
    """`listeners` without those of controllers, at least one. Raises SettingError."""
    config = settings.current
    own = _of_clients(config, "listeners", config.listeners)
    if not own:
        raise SettingError(
            f"listeners has none for clients: {config.listeners}; add NAME://HOST:PORT, or give --listen"
        )
    repeated = [name for name, count in Counter(one.name for one in own).items() if count > 1]
    if repeated:
        raise SettingError(f"listeners must have each name once, and has {repeated[0]} more often: {config.listeners}")
    return own


def check_for_cluster(config: BrokerConfig, chosen: list[Listener]) -> None:
    """Raises SettingError for listeners that the other brokers of a cluster cannot use: they reach each broker by its only
    listener, of which inter.broker.listener.name or security.inter.broker.protocol speaks."""
    own = _of_clients(config, "listeners", config.listeners)
    if set(chosen) <= set(own):
        chosen = own  # also where --listen names one of several
    names = ", ".join(one.text for one in chosen)
    if len(chosen) != 1:
        raise SettingError(
            f"a broker of a cluster (zookeeper.connect with broker.id) must have one listener, not {names}"
        )
    name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    if name is not None and name.upper() != chosen[0].name:
        raise SettingError(f"inter.broker.listener.name must be {chosen[0].name}, the only listener, not {name}")
    if name is None and protocol != chosen[0].security_protocol:
        raise SettingError(
            f"security.inter.broker.protocol must be {chosen[0].security_protocol}, that of the only listener {names}, "
            f"not {protocol}"
        )


def listener_at(settings: BrokerSettings, host: str, port: int) -> Listener:
    """The listener of `listeners` at an address; one without security where --listen has named another address."""
    return _own_listener_at(settings, (host, port)) or Listener(PLAINTEXT, host, port)


def _own_listener_at(settings: BrokerSettings, address: Address) -> Listener | None:
    config = settings.current
    own = _of_clients(config, "listeners", config.listeners)
    return next((one for one in own if one.address == address), None)


def effective_log_dirs(settings: BrokerSettings, data: Path | None) -> dict[str, str]:
    """`log.dirs` of a broker whose logs are in ``data``, None for memory; empty where the settings have it."""
    config = settings.current
    folder = "memory" if data is None else str(data)
    return {} if folder == (config.log_dirs or config.log_dir) else {"log.dirs": folder}


def effective_listeners(
    settings: BrokerSettings, chosen: Iterable[Listener], bound: Iterable[Listener]
) -> dict[str, str]:
    """`listeners` of a broker that was to listen as ``chosen`` and does as ``bound``; empty where the settings have it."""
    own = _of_clients(settings.current, "listeners", settings.current.listeners)
    return {} if set(chosen) <= set(own) else {"listeners": ",".join(one.text for one in bound)}


def advertised_addresses(settings: BrokerSettings, chosen: list[Listener]) -> dict[str, Address]:
    """The address that clients of each listener are to connect to, by its name. A listener without one: the address at which
    a connection arrived. Where the broker has one listener, an address under another name is its own. Raises SettingError."""
    config = settings.current
    usable = _of_clients(config, "advertised.listeners", config.advertised_listeners)
    by_name = {one.name: (one.host, one.port) for one in usable}
    if len(chosen) == 1 and usable:
        protocol = chosen[0].security_protocol
        fitting = [one for one in usable if one.security_protocol == protocol]
        if not fitting:
            raise SettingError(
                f"advertised.listeners has none of protocol {protocol}, the listener's: {config.advertised_listeners}"
            )
        by_name.setdefault(chosen[0].name, (fitting[0].host, fitting[0].port))
    return by_name
