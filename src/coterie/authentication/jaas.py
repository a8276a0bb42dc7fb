"""The text of sasl.jaas.config: a login module, a flag, and options; `JaasConfig` of Kafka reads the same."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))')
_USER = "user_"


class BadJaas(ValueError):
    """A text that is no such configuration; no part of it is repeated, since it holds passwords."""


def jaas_options(text: str) -> dict[str, str]:
    """The options of the one login module. Raises BadJaas."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != (";", True) or any(token == (";", True) for token in tokens[:-1]):
        raise BadJaas("sasl.jaas.config must be MODULE required NAME=VALUE …; with one semicolon at its end")
    options, rest = dict[str, str](), tokens[2:-1]
    for at in range(0, len(rest), 3):
        parts = rest[at : at + 3]
        if len(parts) < 3 or parts[1] != ("=", True) or parts[0][1] or parts[2][1]:
            raise BadJaas('an option of sasl.jaas.config must be NAME=VALUE, or NAME="VALUE"')
        options[parts[0][0]] = parts[2][0]
    return options


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Each with whether it is punctuation. Raises BadJaas."""
    tokens, at, end = list[tuple[str, bool]](), 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadJaas("sasl.jaas.config has a quotation mark that is not closed")
        quoted, plain, sign = match.groups()
        tokens.append(
            (sign, True) if sign else (re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain, False)
        )
        at = match.end()
    return tokens


def users_of(text: str) -> dict[str, str]:
    """The passwords by user of a broker's PlainLoginModule: its options user_NAME. Raises BadJaas."""
    return {name.removeprefix(_USER): value for name, value in jaas_options(text).items() if name.startswith(_USER)}
