"""Values of settings beside ConfigDef.parseType and convertToString of Apache Kafka 4.3.0, and what Python values may be.
SCRAM logins beside ScramFormatter of Apache Kafka 4.3.0: the bytes of a password are its UTF-8, without SASLprep.
Properties files beside java.util.Properties of Java 17."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.settings import SettingError, read_properties
from coterie.client.errors import KafkaError
from coterie.client.security import scram
from coterie.configuration import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    PASSWORD,
    STRING,
    VALUE_TYPES,
    Kind,
    UnfitValue,
    ValueType,
    format_value,
)
from tests.configuration.java import PASSWORDS, VALUES, Response, recorded

# kind, text -> why the result differs from Java's
DIFFERENT = {
    (
        "DOUBLE",
        "1e23",
    ): "Java 17 writes 9.999999999999999E22 for it, Java 19 the shortest digits (JDK-4511638), as we do"
}
VALUE_OF = {
    Kind.BOOLEAN: st.booleans(),
    Kind.STRING: st.text().map(lambda text: text.strip("".join(map(chr, range(33))))),
    Kind.INT: st.integers(-(2**31), 2**31 - 1),
    Kind.SHORT: st.integers(-(2**15), 2**15 - 1),
    Kind.LONG: st.integers(-(2**63), 2**63 - 1),
    Kind.DOUBLE: st.floats(allow_nan=False),
    Kind.LIST: st.lists(st.text("ab\u00e9", min_size=1)).map(tuple),
    Kind.PASSWORD: st.text("ab\u00e9"),
    Kind.CLASS: st.text("ab."),
}
LOGINS = [
    (mechanism, password, response) for mechanism, password, response in recorded("scram") if response is not None
]
# Java makes a property with an empty name of a line that is a backslash alone, and takes one before a comment for nothing.
BACKSLASH_ALONE = re.compile(r"(?:^|[\r\n])[ \t\f]*\\(?:[\r\n]|$)")


def ours(kind: str, text: str) -> Response:
    try:
        value = VALUE_TYPES[Kind[kind]].parse(text)
    except UnfitValue:
        return None
    return list(value) if isinstance(value, tuple) else [str(format_value(value))]


@pytest.mark.parametrize("kind", VALUES)
def test_texts_are_read_as_kafka_reads_them(kind: str) -> None:
    different = {
        (k, text): (ours(k, text), theirs)
        for k, text, theirs in recorded("value")
        if k == kind and ours(k, text) != theirs
    }
    assert different.keys() == {row for row in DIFFERENT if row[0] == kind}, different


@given(st.data(), st.sampled_from(list(Kind)))
def test_a_value_is_read_from_itself_and_from_its_text(data: st.DataObject, kind: Kind) -> None:
    value = data.draw(VALUE_OF[kind])
    value_type = VALUE_TYPES[kind]
    assert value_type.parse(value) == value
    assert value_type.parse(format_value(value)) == value


@pytest.mark.parametrize(
    ("value_type", "value", "text"),
    [
        (BOOLEAN, 1, "must be true or false, not 1"),
        (INT, True, "must be a whole number of 32 bits, not True"),
        (INT, 5.0, "must be a whole number of 32 bits, not 5.0"),
        (INT, 2**31, "must be a whole number of 32 bits, not 2147483648"),
        (INT, None, "must be a whole number of 32 bits, not None"),
        (DOUBLE, False, "must be a number, not False"),
        (STRING, b"g", "must be text, not b'g'"),
        (STRING, True, "must be text, not True"),
        (LIST, ["a", 1], "must be text with commas, or a list of texts, not ['a', 1]"),
        (PASSWORD, b"hush", "must be text, not a value of type bytes"),
    ],
)
def test_a_python_value_of_another_type_is_refused(value_type: ValueType[Any], value: object, text: str) -> None:
    with pytest.raises(UnfitValue) as error:
        value_type.parse(value)
    assert str(error.value) == text


def test_python_values_that_mean_a_text() -> None:
    assert STRING.parse(1) == "1"  # acks=1
    assert STRING.parse(PurePosixPath("/etc/ca.pem")) == "/etc/ca.pem"
    assert LIST.parse(["a", "b"]) == LIST.parse(("a", "b")) == ("a", "b")
    assert DOUBLE.parse(1) == 1.0


@pytest.mark.parametrize(("mechanism", "password", "response"), LOGINS)
def test_a_login_sends_what_kafkas_client_sends(mechanism: str, password: str, response: list[str]) -> None:
    client_first, server_first, client_final, server_final = (part.encode() for part in response)
    exchange = scram(mechanism, password, password, "nonce")
    assert next(exchange) == client_first
    assert exchange.send(server_first) == client_final
    with pytest.raises(StopIteration):
        exchange.send(server_final)


def test_java_has_no_login_with_an_empty_password_only() -> None:
    refused = {password for _, password, response in recorded("scram") if response is None}
    assert refused == {""}
    assert len(LOGINS) == 2 * (len(PASSWORDS) - 1)


def test_another_password_is_another_login() -> None:
    mechanism, _, response = next(login for login in LOGINS if login[1] == "p\u00e4ss\u00df")
    exchange = scram(mechanism, "p\u00e4ss\u00df", "pa\u0308ss\u00df", "nonce")
    next(exchange)
    assert exchange.send(response[1].encode()) != response[2].encode()
    with pytest.raises(KafkaError, match="does not know the password"):
        exchange.send(response[3].encode())


def lines_of(text: str) -> Response:
    try:
        properties = read_properties(text)
    except SettingError:
        return None
    return [part for pair in sorted(properties.items()) for part in pair]


def test_properties_files_are_read_as_java_reads_them() -> None:
    different = [
        (text, lines_of(text), theirs) for _, text, theirs in recorded("properties") if lines_of(text) != theirs
    ]
    assert not [row for row in different if not BACKSLASH_ALONE.search(row[0])]
    assert len(different) < len(recorded("properties")) / 20
