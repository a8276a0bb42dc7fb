"""The arguments of what `coterie.testing` offers, checked at the call by their names: a slip is a TypeError or ValueError
there and then, never an error of a broker's thread."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from coterie.authorizer.acls import Acl
from coterie.client import arguments
from coterie.testing.faults import FaultRule
from coterie.text.addresses import parse_address
from coterie.wire.errors import ErrorCode

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

C = TypeVar("C", bound=type)
_LARGEST = arguments.INT32[1]


def error_code(value: Any) -> ErrorCode:
    """An ErrorCode, also by its name. Raises TypeError, ValueError."""
    if isinstance(value, ErrorCode):
        return value
    if not isinstance(value, str):
        raise TypeError(f"code must be an ErrorCode or its name, not {value!r}")
    if value not in ErrorCode.__members__:
        close = difflib.get_close_matches(value.upper(), ErrorCode.__members__, n=1)
        raise ValueError(f"Kafka has no error code {value!r}" + (f"; did you mean {close[0]}?" if close else ""))
    return ErrorCode[value]


def _text(name: str) -> Callable[[Any], str]:
    return lambda value: arguments.text(value, name)


def _number(name: str, least: int = 0, most: int = _LARGEST) -> Callable[[Any], int]:
    return lambda value: arguments.whole_number(value, name, least, most)


def _offsets(value: Any) -> Mapping[tuple[str, int], int]:
    return {(topic, partition): at.offset for (topic, partition), at in arguments.offsets_to_commit(value).items()}


def _rule(value: Any) -> FaultRule:
    if not isinstance(value, FaultRule):
        raise TypeError(f"rule must be what hold or fail returned, not {value!r}")
    return value


def _mapping(value: Any) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"settings must be a mapping from names to values, not {value!r}")
    for name in value:
        arguments.text(name, "the name of a setting")
    return value


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path):
        raise TypeError(f"folder must be a path, not {value!r}")
    return Path(value)


def _address(value: Any) -> str:
    text = arguments.text(value, "listen")
    try:
        parse_address(text)
    except ValueError as error:
        raise ValueError(f"listen must be HOST:PORT, not {text!r}") from error
    return text


def _yes_or_no(name: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
        return value

    return check


def _passwords(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for item in value.items() for part in item):
        raise TypeError("sasl must be a mapping from users to passwords")
    return value


def _entries(value: Any) -> list[Acl]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, Acl) for one in value):
        raise TypeError(f"acls must be a list of what coterie.testing.allow returns, not {value!r}")
    return list(value)


CHECKS: dict[str, Callable[[Any], Any]] = {
    **{
        name: _text(name)
        for name in (
            "api",
            "client_id",
            "group",
            "mechanism",
            "member",
            "name",
            "operation",
            "principal",
            "topic",
            "transactional_id",
            "upstream",
            "user",
        )
    },
    **{
        name: _number(name)
        for name in ("at_least", "at_most", "broker_id", "count", "members", "ms", "partition", "times")
    },
    "acls": _entries,
    "brokers": lambda value: arguments.integer(value, "brokers"),
    "code": error_code,
    "configs": arguments.settings,
    "folder": _path,
    "key": lambda value: arguments.binary(value, "key"),
    "listen": _address,
    "offsets": _offsets,
    "outlives": _yes_or_no("outlives"),
    "partitions": _number("partitions", -1),
    "port": _number("port", 0, 65_535),
    "racks": lambda value: arguments.names(value, "racks"),
    "rule": _rule,
    "sasl": _passwords,
    "settings": _mapping,
    "tick_ms": _number("tick_ms", 1),
    "tls": _yes_or_no("tls"),
    "timeout_s": lambda value: arguments.seconds(value, "timeout_s"),
    "to": lambda value: arguments.broker_ids(value, "to"),
    "values": lambda values: tuple(arguments.binary(value, "value") for value in values),
}


def checked_arguments(cls: C) -> C:
    """Has each public method of a class check its arguments by `CHECKS`; None passes where it is the default."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _checked(method))
    return cls


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    optional = {name for name, parameter in signature.parameters.items() if parameter.default is None}
    if not CHECKS.keys() & signature.parameters.keys():
        return method

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in CHECKS and not (value is None and name in optional):
                bound.arguments[name] = CHECKS[name](value)
        return method(*bound.args, **bound.kwargs)

    return call
