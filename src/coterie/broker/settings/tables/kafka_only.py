"""Broker settings of Kafka 3.9 and 4.4 that do nothing in coterie, from the table in kafka_only.txt.

Facts: `kafka.server.KafkaConfig`'s own list of both versions; where they differ, 3.9's default and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from coterie.broker.settings.setting import BrokerSetting, Update
from coterie.configuration import VALUE_TYPES, Rule, at_least, one_of


@cache
def _rule(values: str) -> Rule | None:
    """``MINIMUM..``, ``MINIMUM..MAXIMUM``, ``A|B`` or ``-``."""
    minimum, dots, maximum = values.partition("..")
    if dots:
        return at_least(int(minimum), int(maximum) if maximum else None)
    return None if values == "-" else one_of(*values.split("|"))


def _rows(text: str) -> Iterator[BrokerSetting[object]]:
    value_types = {kind.name: value_type for kind, value_type in VALUE_TYPES.items()}
    updates = {update.value: update for update in Update}
    reason = ""
    for line in text.splitlines():
        if line.startswith("["):
            reason = line[1:-1]
        elif line and not line.startswith("#"):
            name, kind_name, default, values, update = line.split(" ")
            value_type = value_types[kind_name]
            value = None if default == "null" else value_type.parse(default.strip('"'))
            yield BrokerSetting(name, value_type, value, _rule(values), no_effect=reason, update=updates[update])


# importlib.resources would import archives and temporary files: 5 ms of each start.
KAFKA_ONLY = tuple(_rows(Path(__file__).with_suffix(".txt").read_text("utf-8")))
