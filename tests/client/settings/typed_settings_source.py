"""The source of `coterie.client.settings.typed`, made of the table of client settings.

`python -m tests.client.settings.typed_settings_source` writes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coterie.client.settings import types as setting_types
from coterie.client.settings.protocols import NOT_WITH, SHARE_PROTOCOL
from coterie.client.settings.settings import (
    CLIENT_SETTINGS,
    CONSUMER,
    EVERY,
    PRODUCER,
    SECURITY,
    SHARE,
    ClientSetting,
)
from coterie.configuration import Kind

FILE = Path(__file__).parents[3] / "src" / "coterie" / "client" / "settings" / "typed.py"
HEADER = '''"""The settings of each client as a TypedDict, so that a type checker knows their names and values.

Made of the table in `settings` beside it by `python -m tests.client.settings.typed_settings_source`. Keys are Kafka's
names, which only the functional syntax can write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from coterie.assignors import Assignor
from coterie.client.serialization import Deserializer, DeserializerLike, Serializer, SerializerLike
from coterie.client.settings.types import Partitioner
from coterie.client.types import ConsumerInterceptor

_Assignor = type[Assignor] | Assignor
_Interceptor = type[ConsumerInterceptor] | ConsumerInterceptor
_Serializer = type[Serializer[Any]] | SerializerLike[Any]
_Deserializer = type[Deserializer[Any]] | DeserializerLike[Any]
'''
CLASSES = '''

class ConsumerSettings(_Every, _Consumer, total=False):
    """Settings of a `Consumer` by Kafka's names: ``settings: ConsumerSettings = {"group.id": "g"}`` is checked by mypy. Values
    that are texts, such as from a file, go into a plain ``dict[str, str]``, which clients take as well."""


class ShareConsumerSettings(_Every, _ShareConsumer, total=False):
    """Settings of a `ShareConsumer`, as `ConsumerSettings`."""


class ProducerSettings(_Every, _Producer, total=False):
    """Settings of a `Producer`, as `ConsumerSettings`."""


class AdminSettings(_Every, total=False):
    """Settings of an `Admin`, as `ConsumerSettings`."""
'''
_OF_TYPES = {
    setting_types.ADDRESSES: "str | Sequence[str]",
    setting_types.ASSIGNOR_LIST: "str | _Assignor | Sequence[str | _Assignor]",
    setting_types.OBJECTS: "_Interceptor | Sequence[_Interceptor]",
    setting_types.PARTITIONER: "Partitioner",
    setting_types.TOKEN_CALLBACK: "Callable[[], str]",
    setting_types.SERIALIZER: "str | _Serializer",
    setting_types.DESERIALIZER: "str | _Deserializer",
}
_OF_KINDS = {Kind.BOOLEAN: "bool", Kind.INT: "int", Kind.LONG: "int", Kind.STRING: "str", Kind.PASSWORD: "str"}


def annotation(setting: ClientSetting[object]) -> str:
    """The type of a setting's Python values; of a number in a choice, such as acks=1, also the int."""
    if setting.rule is not None and setting.rule.choices:
        numbers = [choice for choice in setting.rule.choices if choice.lstrip("-").isdecimal()]
        words = [f'"{choice}"' for choice in setting.rule.choices]
        return f"Literal[{', '.join(words + numbers)}]"
    text = _OF_TYPES.get(setting.value_type) or _OF_KINDS[setting.kind]
    if setting.name.endswith(".location"):
        text += " | PathLike[str]"
    return f"{text} | None" if setting.default is None else text


def _typed_dict(name: str, uses: set[str], without: tuple[str, ...] = ()) -> Iterator[str]:
    yield f'{name} = TypedDict(\n    "{name}",\n    {{\n'
    for setting in CLIENT_SETTINGS.values():
        if setting.used_by in uses and setting.name not in without:
            yield f'        "{setting.name}": {annotation(setting)},\n'
    yield "    },\n    total=False,\n)\n"


def source() -> str:
    return "".join(
        [
            HEADER,
            *_typed_dict("_Every", {EVERY, SECURITY}),
            *_typed_dict("_Consumer", {CONSUMER}),
            *_typed_dict("_ShareConsumer", {CONSUMER, SHARE}, NOT_WITH[SHARE_PROTOCOL]),
            *_typed_dict("_Producer", {PRODUCER}),
            CLASSES,
        ]
    )


if __name__ == "__main__":
    FILE.write_text(source(), "utf-8")
