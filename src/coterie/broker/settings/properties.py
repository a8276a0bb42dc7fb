"""Java's properties files, as Kafka's server.properties and meta.properties, and what coterie makes of the former."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS
from coterie.broker.settings.tables.security_table import listener_setting
from coterie.configuration import SettingError, nearest
from coterie.text.quantity import listed

_OF_LISTENER = "listener.name."
_PREFIX = "KAFKA_"
# Variables of Kafka's image that are for its JVM and not for server.properties (KafkaDockerWrapper).
_OF_THE_JVM = frozenset({
    "VERSION", "OPTS", "HEAP_OPTS", "JMX_OPTS", "JMX_HOSTNAME", "JMX_PORT", "JVM_PERFORMANCE_OPTS", "GC_LOG_OPTS",
    "LOG4J_OPTS", "LOG4J_ROOT_LOGLEVEL", "LOG4J_LOGGERS", "TOOLS_LOG4J_LOGLEVEL",
})  # fmt: skip
MOST_NAMED = 10  # unknown settings: a file of another kind has a name on each line


def read_properties(text: str) -> dict[str, str]:
    """The names and values of a properties file as java.util.Properties reads it: with =, : or a space between, escapes,
    lines that go on after a backslash; a name's last value counts. Raises SettingError for an escape that is none."""
    import javaproperties  # XML and HTTP come with it, and most brokers read no such file

    try:
        return javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise SettingError(
            f"{error.escape} is not an escape of a properties file: write \\u and four hex digits"
        ) from error


def environment_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings in the variables of Kafka's container images: KAFKA_ with a setting's name in capitals, where _ stands for
    a dot, __ for an underscore and ___ for a hyphen. An empty variable sets nothing."""
    properties = {}
    for variable, value in environment.items():
        name = variable.removeprefix(_PREFIX)
        if name == variable or name in _OF_THE_JVM or not value.strip():
            continue
        # Longer runs first; the characters in between occur in no variable.
        marked = name.lower().replace("___", "-").replace("__", "\0").replace("_", ".")
        properties[marked.replace("\0", "_")] = value
    return properties


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """A server.properties: the settings that coterie has, and the names of settings without effect here."""

    given: dict[str, str]
    no_effect: tuple[str, ...]
    unknown: tuple[str, ...]

    def warning(self) -> str:
        """One line about what changes nothing; empty where all does."""
        parts = []
        if self.no_effect:
            parts.append(f"without effect in coterie: {', '.join(self.no_effect)}")
        if self.unknown:
            guesses = [
                name + nearest(name, BROKER_SETTINGS).replace("; ", " (").replace("?", "?)") for name in self.unknown
            ]
            parts.append(f"not known to coterie or Kafka: {listed(guesses, MOST_NAMED)}")
        return "; ".join(parts)


def server_properties(properties: Mapping[str, str]) -> ServerProperties:
    """Sorts the settings of a server.properties. Values are checked by `BrokerSettings`."""
    known = {
        name: value
        for name, value in properties.items()
        if name in BROKER_SETTINGS or listener_setting(name) is not None
    }
    of_listeners = [name for name in properties if name.startswith(_OF_LISTENER) and name not in known]
    no_effect = [n for n in known if n in BROKER_SETTINGS and BROKER_SETTINGS[n].no_effect] + of_listeners
    unknown = [name for name in properties if name not in known and name not in of_listeners]
    return ServerProperties(known, tuple(sorted(no_effect)), tuple(sorted(unknown)))
