"""Versions of Kafka as settings name them, beside org.apache.kafka.server.common.MetadataVersion of 3.9.1 (recorded)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.metadata_versions import release_of

KAFKA = json.loads((Path(__file__).parents[1] / "data" / "metadata-versions-of-kafka-3.9.1.json").read_text())
# as written -> its name; "": refused
READ: dict[str, str] = {name: name for name in KAFKA["names"]} | KAFKA["read"]
FORMAT, PROTOCOL = "message.format.version", "inter.broker.protocol.version"


def is_accepted(name: str, text: str) -> bool:
    try:
        BrokerSettings({name: text})
    except SettingError:
        return False
    return True


@pytest.mark.parametrize("text", READ)
def test_a_version_is_read_as_by_kafka(text: str) -> None:
    release = READ[text].partition("-")[0]
    assert release_of(text) == (tuple(map(int, release.split("."))) if release else None)


def test_a_message_format_is_any_version_that_kafka_reads() -> None:
    accepted = {text for text in READ if is_accepted(f"log.{FORMAT}", text)}
    assert accepted == {text for text, name in READ.items() if name}
    for text in accepted:
        BrokerSettings().check_topic_configs({FORMAT: text})


def test_a_protocol_is_any_version_from_2_6_that_kafka_reads() -> None:
    since_2_6 = KAFKA["names"][KAFKA["names"].index("2.6-IV0") :]
    assert {text for text in READ if is_accepted(PROTOCOL, text)} == {
        t for t, name in READ.items() if name in since_2_6
    }


@pytest.mark.parametrize("name", [f"log.{FORMAT}", PROTOCOL])
def test_what_is_refused_names_the_versions_to_choose_from(name: str) -> None:
    with pytest.raises(SettingError, match=rf"{name} must be a version of .*3\.9, such as .*, not '?4\.0"):
        BrokerSettings({name: "4.0"})
