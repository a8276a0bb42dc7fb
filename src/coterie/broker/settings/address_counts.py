"""max.connections.per.ip.overrides: how many connections some addresses may have."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from coterie.configuration import Rule

_HOST, _COUNT = r"[0-9a-zA-Z\-%._:]*", r"[+-]?[0-9]+"


def _are_hosts_with_counts(value: object) -> bool:
    """What Kafka takes, names of hosts included."""
    for item in filter(str.strip, str(value).split(",")):
        host, colon, count = (part.strip() for part in item.rpartition(":"))
        well_formed = colon and re.fullmatch(_HOST, host) and re.fullmatch(_COUNT, count)
        if not well_formed or not -(2**31) <= int(count) < 2**31:
            return False
    return True


HOSTS_WITH_COUNTS = Rule("HOST:COUNT, several with commas", _are_hosts_with_counts)


@lru_cache(maxsize=4)
def counts_of(text: str) -> dict[str, int]:
    """By address, of a text that follows the rule. Names of hosts are left out."""
    counts = {}
    for item in filter(str.strip, text.split(",")):
        host, _colon, count = (part.strip() for part in item.rpartition(":"))
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            continue
        counts[str(address)] = int(count)
    return counts
