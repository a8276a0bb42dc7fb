"""What a field's values are made of: the names in a question, and the right value with the wrong ones by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from coterie.certify.question import Value

UNKNOWN_UUID = {"@": "hex", "of": "00112233445566778899aabbccddeeff"}
NO_UUID = {"@": "hex", "of": "00" * 16}
LONG_TEXT = {"@": "text", "after": "$", "of": "x", "times": 300}


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a question. ``member`` and ``producer`` are the questions whose responses have the ids."""

    topic: str = "$t"
    group: str = "$g"
    member: str = "join"
    txn: str = "$x"
    producer: str = "init"
    sequence: int = -1
    new_topic: str = "$n"

    def number(self, n: int) -> Names:
        """The names of the n-th case: ``{n}`` in each is replaced."""
        texts = {f: getattr(self, f).replace("{n}", str(n)) for f in ("topic", "group", "member", "txn", "producer")}
        return replace(self, **texts, new_topic=self.new_topic.replace("{n}", str(n)))


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of a field: ``right`` makes one that a story's names give a meaning, ``wrong`` has the others, by the
    name of the case."""

    right: Callable[[Names], Value]
    wrong: dict[str, Value]


def always(value: Value, **wrong: Value) -> Domain:
    """A value that is right whatever the names."""
    return Domain(lambda _: value, wrong)
