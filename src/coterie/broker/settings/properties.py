"""Java's properties files, as Kafka's server.properties and meta.properties."""

from __future__ import annotations

from coterie.broker.settings.setting import SettingError


def read_properties(text: str) -> dict[str, str]:
    """Java properties, as in Kafka's server.properties: NAME=VALUE a line, # or ! begins a comment."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SettingError(f"line {number} of the properties is not NAME=VALUE: {line!r}")
        values[name.strip()] = value.strip()
    return values
