"""The principal of a connection, as Kafka's KafkaPrincipal: a type, which is nearly always User, and a name. A certificate's
comes from its distinguished name, in the form of RFC 2253 as Java's X500Principal writes it, by
ssl.principal.mapping.rules (KIP-371).

Facts: `SslPrincipalMapper` of Kafka 4.3. The first rule whose pattern is the whole name counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

USER = "User"
DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)", re.DOTALL | re.IGNORECASE
)
# OpenSSL's names of attributes -> the names of RFC 2253 and Java
_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
# Others are written as their number, with the DER of the value; of these the type of the value is certain.
_IA5_STRINGS = {"emailAddress": "1.2.840.113549.1.9.1"}
DistinguishedName = Sequence[Sequence[tuple[str, str]]]  # of `ssl.SSLObject.getpeercert`


@dataclass(frozen=True, slots=True)
class Principal:
    """Compared by type and name; ``text`` is how ACLs, super.users and log lines name it."""

    type: str
    name: str

    @property
    def text(self) -> str:
        """TYPE:NAME."""
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")  # of a connection without authentication


class BadRules(ValueError):
    """A text that is not a list of rules."""


class NoRule(ValueError):
    """No rule is about a name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """``pattern`` None: the name stays as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    letters: str = ""

    def applied(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = match.expand(self.replacement)
        return {"L": result.lower(), "U": result.upper()}.get(self.letters, result)


@lru_cache(maxsize=16)
def parse_rules(text: str) -> tuple[_Rule, ...]:
    """Raises BadRules."""
    rules: list[_Rule] = []
    at = 0
    while at < len(text.rstrip()):
        match = _RULE.match(text, at)
        if match is None:
            raise BadRules(f"not a rule: {text[at:]}")
        default, pattern, replacement, letters = match.groups()
        try:
            rules.append(_Rule(None) if default else _Rule(re.compile(pattern), _groups(replacement), letters.upper()))
        except re.error as error:
            raise BadRules(f"not a regular expression: {pattern}: {error}") from None
        at = match.end()
    return tuple(rules) or (_Rule(None),)


def _groups(replacement: str) -> str:
    """Java's $1 as Python's group, and its escaped characters as themselves."""

    def in_python(part: re.Match[str]) -> str:
        escaped, group = part.groups()
        return f"\\g<{group}>" if group else escaped.replace("\\", r"\\")

    return re.sub(r"\\(.)|\$(\d+)", in_python, replacement)


def mapped_name(rules: str, name: str) -> str:
    """The principal's name. Raises NoRule where no rule is about it, as Kafka refuses the connection then."""
    for rule in parse_rules(rules):
        result = rule.applied(name)
        if result is not None:
            return result
    raise NoRule(f"no rule of ssl.principal.mapping.rules is about {name}")


def distinguished_name(subject: DistinguishedName) -> str:
    """The most specific part comes first."""
    return ",".join("+".join(_attributes(part)) for part in reversed(subject))


def _attributes(part: Iterable[tuple[str, str]]) -> Iterable[str]:
    for attribute, value in part:
        if attribute in _IA5_STRINGS:
            data = value.encode("ascii", "replace")
            yield f"{_IA5_STRINGS[attribute]}=#16{len(data):02x}{data.hex()}"
        else:
            yield f"{_KEYWORDS.get(attribute, attribute)}={_escaped(value)}"


def _escaped(value: str) -> str:
    """RFC 2253, 2.4."""
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if len(text) > 1 and text.endswith(" ") else text
