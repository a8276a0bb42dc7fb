"""Settings: Kafka's names, and a sentence that helps for each mistake."""

from __future__ import annotations

import pytest

from coterie.broker.settings import BrokerSettings, SettingError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num.partition": "3"}, "there is no setting num.partition; did you mean num.partitions?"),
        ({"num.partitions": "many"}, "num.partitions must be a whole number of 32 bits, not 'many'"),
        ({"num.partitions": "0"}, "num.partitions must be from 1 to 100000, not 0"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable must be true or false, not 'yes'"),
        ({"log.retention.hours": "0"}, "log.retention.hours must be at least 1, or below 0 for no limit, not 0"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be at least 1, not 0"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy must be one of delete, compact"),
    ],
)
def test_a_mistake_is_refused_with_a_sentence(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as error:
        BrokerSettings(given)
    assert str(error.value).startswith(message)


def test_a_topic_setting_goes_before_the_brokers() -> None:
    settings = BrokerSettings({"log.retention.ms": "5000"})
    assert settings.log_config({}).retention_ms == 5000
    assert settings.log_config({"retention.ms": "7000"}).retention_ms == 7000
    with pytest.raises(SettingError, match=r"did you mean retention\.ms"):
        settings.check_topic_configs({"retention.mss": "1"})
