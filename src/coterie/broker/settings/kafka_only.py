"""Broker settings of Kafka 3.9 and 4.4 that do nothing in coterie, from the table in kafka_only.txt.

Facts: `kafka.server.KafkaConfig`'s own list of both versions; where they differ, 3.9's default and values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from coterie.broker.settings.setting import BrokerSetting, Update
from coterie.configuration import VALUE_TYPES, Rule, at_least, one_of

_HOST, _COUNT = r"[0-9a-zA-Z\-%._:]*", r"[+-]?[0-9]+"


def _are_hosts_with_counts(value: object) -> bool:
    for item in filter(str.strip, str(value).split(",")):
        host, colon, count = (part.strip() for part in item.rpartition(":"))
        well_formed = colon and re.fullmatch(_HOST, host) and re.fullmatch(_COUNT, count)
        if not well_formed or not -(2**31) <= int(count) < 2**31:
            return False
    return True


_HOSTS_WITH_COUNTS = Rule("HOST:COUNT, several with commas", _are_hosts_with_counts)


@cache
def _rule(values: str) -> Rule | None:
    """``MINIMUM..``, ``MINIMUM..MAXIMUM``, ``A|B``, ``HOST:COUNT,...`` or ``-``."""
    if values == "HOST:COUNT,...":
        return _HOSTS_WITH_COUNTS
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
