"""Client quotas (KIP-546): the limits of users, client ids and addresses, kept in `client_quotas.json`; `throttling` acts on
them.

An entity is one or two parts, (type, name), sorted by type; a name of None is the default of that type. The rules are
those of Kafka's ClientQuotaControlManager and QuotaConfig.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.quotas import CLIENT_ID, IP, USER, Entity
from coterie.wire.errors import ErrorCode, Refusal

ENTITY_TYPES = (USER, CLIENT_ID, IP)
_FILE = "client_quotas.json"
_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1
_FRACTION = 1e-6  # of a whole number that is written as a double

# key -> the largest whole number, or None where fractions are allowed
_OF_CLIENTS: dict[str, int | None] = {
    "producer_byte_rate": _MAX_LONG,
    "consumer_byte_rate": _MAX_LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
# The order in which Kafka 4.3 describes the values of an entity: of a hash table that grows with the fourth.
_ORDER_OF_THREE = ("consumer_byte_rate", "controller_mutation_rate", "request_percentage", "producer_byte_rate")
_ORDER_OF_FOUR = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage")
_OF_ADDRESSES: dict[str, int | None] = {"connection_creation_rate": _MAX_INT}
QUOTAS = frozenset({*_OF_CLIENTS, *_OF_ADDRESSES})


class Match(IntEnum):
    """How a filter compares the name of an entity's part."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2  # a name or the default


@dataclass(frozen=True, slots=True)
class Component:
    """A filter for one part of an entity. Raises Refusal INVALID_REQUEST or UNSUPPORTED_VERSION when made."""

    entity_type: str
    match_type: int
    name: str | None

    def __post_init__(self) -> None:
        if not self.entity_type:
            raise _invalid("the type of an entity must not be empty")
        if self.entity_type not in ENTITY_TYPES:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"there are no quotas of entity type {self.entity_type}")
        if self.match_type not in list(Match):
            raise _invalid(f"there is no match type {self.match_type}")
        if (self.match_type == Match.EXACT) != (self.name is not None):
            raise _invalid("a name must be given for an exact match, and only for one")

    def matches(self, parts: Mapping[str, str | None]) -> bool:
        """Whether an entity of these parts (type -> name, None for the default) has such a part."""
        if self.entity_type not in parts:
            return False
        return self.match_type == Match.SPECIFIED or parts[self.entity_type] == self.name


class ClientQuotas:
    """The quotas of a broker, ``values`` by entity. A change is on disk when `alter` returns. ``is_alone``: the broker keeps
    them; in a cluster `put` brings them."""

    def __init__(self, fs: FileSystem, *, is_alone: bool = True) -> None:
        self._fs = fs
        self.changes = 0  # so far
        self.values: dict[Entity, dict[str, float]] = {}
        if is_alone and fs.exists(_FILE):
            remedy = "restore it from a backup, or move it away to go on without quotas"
            try:
                for row in checked_files.read_json(fs, _FILE, remedy):
                    self.values[tuple((kind, name) for kind, name in row["entity"])] = dict(row["values"])
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, UnreadableFile):
                    raise
                raise UnreadableFile(_FILE, "it does not hold quotas", remedy) from error

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Puts what an entity of a cluster has in force; nothing is written."""
        if values:
            self.values[entity] = dict(values)
        else:
            self.values.pop(entity, None)
        self.changes += 1

    def check(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """Raises Refusal INVALID_REQUEST for quotas (None removes one) that the entity cannot have."""
        keys = _keys(entity)
        for key, value in changes.items():
            if value is None:
                continue  # a removal, which Kafka does not check
            if key not in keys:
                raise _invalid(f"{key} is not a quota of such an entity; it may have {', '.join(keys)}")
            _check(key, value, keys[key])

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Sets quotas of entities, or removes them (None), all of them checked before. Raises OSError, and then none is
        changed."""
        after = dict(self.values)
        for entity, changed in changes.items():
            values = {**after.get(entity, {}), **changed}
            kept = {key: value for key, value in values.items() if value is not None}
            if kept:
                after[entity] = kept
            else:
                after.pop(entity, None)
        rows = [{"entity": entity, "values": values} for entity, values in after.items()]
        self._fs.write_file(_FILE, checked_files.to_json(rows))
        self.values = after
        self.changes += 1

    def describe(self, components: Iterable[Component], *, strict: bool) -> Iterator[tuple[Entity, dict[str, float]]]:
        """The entities that match every component; where ``strict``, those without any other part.
        Raises Refusal INVALID_REQUEST."""
        components = list(components)
        types = [component.entity_type for component in components]
        if len(set(types)) < len(types):
            raise _invalid("a filter may name an entity type once")
        if IP in types and len(types) > 1:
            raise _invalid("quotas of addresses do not go with those of users or client ids")
        for entity, values in list(self.values.items()):
            parts = dict(entity)
            if all(c.matches(parts) for c in components) and not (strict and len(parts) != len(components)):
                yield entity, _in_order(values)


def _in_order(values: Mapping[str, float]) -> dict[str, float]:
    order = _ORDER_OF_FOUR if len(values) == len(_ORDER_OF_FOUR) else _ORDER_OF_THREE
    return {key: values[key] for key in order if key in values} | dict(values)


def _keys(entity: Entity) -> dict[str, int | None]:
    """The quotas that an entity may have. Raises Refusal for an invalid entity."""
    if not entity:
        raise _invalid("an entity needs a user, a client id or an address")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"there are no quotas of entity type {kind}")
        if name == "":
            raise _invalid(f"the name of a {kind} must not be empty; null stands for the default")
    kinds = dict(entity)
    if IP not in kinds:
        return _OF_CLIENTS
    if len(kinds) > 1:
        raise _invalid("an address cannot be combined with a user or a client id")
    address = kinds[IP]
    if address is not None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise _invalid(f"{address!r} is not an IP address") from None
    return _OF_ADDRESSES


def _check(key: str, value: float, largest: int | None) -> None:
    if value <= 0:
        raise _invalid(f"{key} must be greater than 0, not {value}")
    if largest is None or math.isnan(value):
        return
    if value > largest:
        raise _invalid(f"{key} must be at most {largest}, not {value}")
    if value - math.floor(value) > _FRACTION:  # as Kafka: a hair below a whole number is a fraction
        raise _invalid(f"{key} must be a whole number, not {value}")


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
