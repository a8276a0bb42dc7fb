"""The table of client settings beside the ConfigDefs of Apache Kafka 4.3.0's consumer, producer and admin client, and
values that users give. The TypedDicts of the settings agree with the table; mypy reads them in
tests/typing/user_project/settings.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer

import coterie.client
from coterie.client.errors import ConfigError
from coterie.client.settings.foreign import _OWNERS
from coterie.client.settings.settings import (
    CLIENT_SETTINGS,
    CONSUMER,
    EVERY,
    PRODUCER,
    SECURITY,
    SHARE,
    ClientSetting,
    client_settings,
)
from coterie.client.zookeeper.settings import consumer_settings
from coterie.configuration import Rule, format_value
from tests.client.settings import typed_settings_source
from tests.configuration.java import recorded

USED_BY = {EVERY: "consumer", CONSUMER: "consumer", SHARE: "consumer", PRODUCER: "producer", SECURITY: "admin"}
# setting -> why its row differs from Kafka's
DIFFERENT = {
    "auto.offset.reset": "there is no by_duration",
    "bootstrap.servers": "Kafka checks the addresses later",
    "client.id": "coterie by default",
    "group.protocol": "the choices are in lower case, as the default is",
    "client.rack": "no value rather than an empty one",
    "interceptor.classes": "the validator of Kafka 4.3 is a class without a text",
    **dict.fromkeys(
        ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"), "without one, bytes"
    ),
    "partition.assignment.strategy": "names rather than classes",
    "sasl.mechanism": "there is no GSSAPI, so PLAIN is the default",
    "share.acquire.mode": "the choices are in lower case; Kafka's validator is a class without a text",
    "ssl.keystore.type": "PEM is the only type",
    "ssl.truststore.type": "as ssl.keystore.type",
}
OURS_ALONE = {"partitioner", "sasl.oauthbearer.token.callback", "sasl.password", "sasl.username"}


def kafkas(setting: ClientSetting[object]) -> list[str] | None:
    rows = {(client, name): response for client, name, response in recorded("client")}
    return rows[USED_BY[setting.used_by], setting.name]


def validator(rule: Rule | None) -> tuple[str, ...]:
    """A rule, or Kafka's text of one, in a form that both have."""
    return () if rule is None else rule.choices or (rule.text,)


def kafkas_validator(text: str) -> tuple[str, ...]:
    if text == "null":
        return ()
    if text == "non-empty string":
        return ("a text that is not empty",)
    if minimum := re.fullmatch(r"\[(\d+),...\]", text):
        return (f"at least {minimum[1]}",)
    return tuple(text.removeprefix("(case insensitive) ").strip("[]").split(", "))


def test_each_setting_is_kafkas_but_for_the_differences_explained() -> None:
    different = set()
    for name, setting in CLIENT_SETTINGS.items():
        theirs = kafkas(setting)
        if theirs is not None:
            ours = (setting.kind.name, str(format_value(setting.default)), sorted(validator(setting.rule)))
            if ours != (theirs[0], theirs[1].replace("null", "None"), sorted(kafkas_validator(theirs[2]))):
                different.add(name)
    assert different == set(DIFFERENT)


def test_settings_that_kafka_lacks_are_few() -> None:
    assert {name for name, setting in CLIENT_SETTINGS.items() if kafkas(setting) is None} == OURS_ALONE


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"session.timeout": 1}, "there is no client setting session.timeout; did you mean session.timeout.ms?"),
        (
            {"client_id": "a", "client.id": "b"},
            "client.id is given twice, with dots and with underscores",
        ),
        ({"session_timeout_ms": "45s"}, "session.timeout.ms must be a whole number of 32 bits, not '45s'"),
        ({"session.timeout.ms": 45_000.5}, "session.timeout.ms must be a whole number of 32 bits, not 45000.5"),
        ({"max.poll.records": 0}, "max.poll.records must be at least 1, not 0"),
        ({"enable.auto.commit": "yes"}, "enable.auto.commit must be true or false, not 'yes'"),
        ({"isolation.level": "dirty"}, "isolation.level must be one of read_uncommitted, read_committed, not 'dirty'"),
        ({"client.id": None}, "client.id must be text, not None"),
        ({"transactional.id": ""}, "transactional.id must be a text that is not empty, not ''"),
        ({"partitioner": 5}, "partitioner must be a function of topic, key and number of partitions, not 5"),
        ({"sasl.password": b"hush"}, "sasl.password must be text, not a value of type bytes"),
        ({"bootstrap.servers": "a:1,b"}, "bootstrap.servers must be HOST:PORT[,HOST:PORT...], not 'b'"),
        (
            {"partition.assignment.strategy": "range,range"},
            "partition.assignment.strategy is wrong: assignor range is listed twice",
        ),
    ],
)
def test_a_mistake_is_refused_with_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        client_settings(given)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "enable.auto.offset.store",
            (
                "enable.auto.offset.store is a setting of librdkafka, not of coterie: use enable.auto.commit=false with "
                "Consumer.commit"
            ),
        ),
        ("error_cb", "error.cb is a setting of librdkafka, not of coterie: use the error that each call raises"),
        (
            "socket.nagle.disable",
            "socket.nagle.disable is a setting of librdkafka, not of coterie: it would have no effect here, leave it out",
        ),
        (
            "partitioner.class",
            "partitioner.class is a setting of Java's clients, not of coterie: use partitioner, a function",
        ),
        (
            "print.key",
            "print.key is a setting of Kafka's console tools, not of coterie: use the option --json of coterie consume",
        ),
    ],
)
def test_a_setting_of_another_client_is_called_by_its_name(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        client_settings({name: "x"})


def test_each_foreign_setting_is_foreign_and_what_to_use_instead_exists() -> None:
    words = {word.rstrip(",;") for _, settings in _OWNERS for text in settings.values() for word in text.split()}
    named = {word.partition("=")[0] for word in words if re.fullmatch(r"[a-z]+(\.[a-z]+)+(=\w+)?", word)}
    assert named - CLIENT_SETTINGS.keys() == set()
    for owner, settings in _OWNERS:
        assert settings.keys() & CLIENT_SETTINGS.keys() == set(), owner


def test_what_is_called_a_setting_of_librdkafka_is_one() -> None:
    """Of the librdkafka that confluent-kafka has; callbacks of Python's wrapper are its own."""
    wrappers = {"logger", "on.commit", "on.delivery", "oauth.cb"}
    names = dict(_OWNERS)["librdkafka"].keys() - wrappers
    assert {name for name in names if not (is_librdkafkas(name) or is_librdkafkas(name.replace(".", "_")))} == set()


def is_librdkafkas(name: str) -> bool:
    try:
        ConfluentProducer({"bootstrap.servers": "127.0.0.1:1", name: "no such value"})
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    except (TypeError, ValueError):
        return True
    return True


def test_a_name_that_is_no_text_is_refused() -> None:
    given: dict[Any, object] = {5: 1}
    with pytest.raises(ConfigError, match="the name of a setting must be text, not 5"):
        client_settings(given)


@pytest.mark.parametrize("given", [None, "localhost:9092", [("client.id", "a")]])
def test_settings_that_are_no_mapping_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="settings must be a mapping from names to values, not "):
        client_settings(given)


def test_values_are_taken_in_their_python_forms() -> None:
    settings = client_settings(
        {
            "bootstrap.servers": ["a:1", "[::1]:2"],
            "acks": 1,
            "enable_auto_commit": "FALSE",
            "group.id": None,
            "security.protocol": "ssl",
            "ssl.truststore.location": Path("/etc/ca.pem"),
            "sasl.password": " with blanks ",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor, range",
        }
    )
    assert settings.bootstrap() == [("a", 1), ("::1", 2)]
    assert (settings.acks, settings.enable_auto_commit, settings.group_id) == ("1", False, None)
    assert (settings.security_protocol, settings.ssl_truststore_location) == ("SSL", "/etc/ca.pem")
    assert settings.sasl_password == " with blanks "
    assert "blanks" not in repr(settings)
    assert settings.partition_assignment_strategy == ("sticky", "range")


def test_the_high_level_consumers_settings_are_read_by_the_same_rules() -> None:
    needed = {"zookeeper.connect": "h:2181", "group.id": "g"}
    assert consumer_settings(needed | {"consumer.timeout.ms": "5"}).consumer_timeout_ms == 5
    with pytest.raises(
        ConfigError, match=r"there is no client setting zookeeper\.conect; did you mean zookeeper\.connect"
    ):
        consumer_settings({"zookeeper.conect": "h"})
    with pytest.raises(ConfigError, match=r"group\.id is needed"):
        consumer_settings({"zookeeper.connect": "h"})


def test_a_bad_setting_of_consume_from_zookeeper_is_refused_before_it_connects() -> None:
    from coterie.cli.groups.zookeeper import read_streams

    settings = {"zookeeper.connect": "127.0.0.1:1", "group.id": "g", "consumer.timeout.ms": "soon"}
    with pytest.raises(ConfigError, match=r"consumer\.timeout\.ms must be a whole number of 32 bits, not 'soon'"):
        read_streams(settings, "t", 1, None, print)


def test_the_typed_dicts_are_made_of_the_table() -> None:
    """`python -m tests.client.settings.typed_settings_source` writes them again."""
    assert typed_settings_source.FILE.read_text("utf-8") == typed_settings_source.source()


def test_the_keys_are_the_settings_of_each_client() -> None:
    keys = coterie.client.ConsumerSettings.__annotations__.keys()
    assert {"group.id", "bootstrap.servers", "sasl.password"} <= keys
    assert not {"acks", "linger.ms"} & keys
    assert coterie.client.AdminSettings.__annotations__.keys() < coterie.client.ProducerSettings.__annotations__.keys()
