"""Settings of share groups: their values, and which of them conflict. Names are those of Kafka's ShareGroupConfigTest and
ShareGroupAutoOffsetResetStrategyTest; the states of a record those of its RecordStateTest."""

from __future__ import annotations

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import OffsetReset, ResetKind, offset_reset
from coterie.configuration import SettingError
from coterie.share.states import TRANSITIONS, RecordCause, RecordState, next_state
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.share.framed_share import FramedShare


@pytest.mark.parametrize(
    ("text", "kind", "ms"),
    [
        ("earliest", OffsetReset.Kind.EARLIEST, 0),
        ("latest", OffsetReset.Kind.LATEST, 0),
        ("by_duration:PT10S", OffsetReset.Kind.BY_DURATION, 10_000),
        ("by_duration:P1DT1H1M0.5S", OffsetReset.Kind.BY_DURATION, 90_060_500),
    ],
)
def test_where_a_group_begins(text: str, kind: ResetKind, ms: int) -> None:
    """testFromString, testTimestamp, testEqualsAndHashCode"""
    assert offset_reset(text) == OffsetReset(kind, ms)
    assert len({offset_reset(text), OffsetReset(kind, ms)}) == 1


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *[(good, 0) for good in ("earliest", "latest", "by_duration:PT1H")],
        *[
            (bad, ErrorCode.INVALID_CONFIG)
            for bad in ("", "invalid", "none", "by_duration", "by_duration:", "by_duration:1h")
        ],
        *[
            (bad, ErrorCode.INVALID_CONFIG)
            for bad in ("by_duration:-PT1H", "by_duration:P", "by_duration:PT", "by_duration:Pxyz", "latest:PT1H")
        ],
    ],
)
def test_where_a_group_begins_is_checked(value: str, code: int) -> None:
    """testValidator, testShareAutoOffsetResetByDurationInvalidFormat"""
    resource = AlterConfigsResource(32, "g", [AlterableConfig("share.auto.offset.reset", 0, value)])
    (response,) = FramedShare().ask(IncrementalAlterConfigsRequest([resource]), 1).responses
    assert response.error_code == code


_DURATION, _COUNT, _LOCKS = "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"


@pytest.mark.parametrize(
    "given",
    [
        {f"max.{_DURATION}": 60_000, f"min.{_DURATION}": 15_000, _DURATION: 10_000},
        {f"max.{_DURATION}": 50_000, f"min.{_DURATION}": 15_000, _DURATION: 60_000},
        {f"min.{_COUNT}": 3, _COUNT: 2},
        {f"max.{_COUNT}": 9, _COUNT: 10},
        {_COUNT: 1},
        {_COUNT: 11},
        {f"min.{_LOCKS}": 200, _LOCKS: 150},
        {f"max.{_LOCKS}": 3_000, _LOCKS: 4_000},
        {_LOCKS: 50},
        {_LOCKS: 20_000},
        {"max.size": 2_000},
    ],
    ids=str,
)
def test_settings_that_conflict(given: dict[str, int]) -> None:
    """testInvalidConfigs"""
    with pytest.raises(SettingError):
        BrokerSettings({f"group.share.{name}": str(value) for name, value in given.items()}).coordinator()


def test_settings_that_do_not_conflict() -> None:
    """testConfigs"""
    given = {
        _DURATION: 20_000,
        f"min.{_DURATION}": 15_000,
        _COUNT: 5,
        f"max.{_COUNT}": 9,
        _LOCKS: 200,
        "max.share.sessions": 1_000,
    }
    settings = BrokerSettings({f"group.share.{name}": str(value) for name, value in given.items()}).share
    assert settings.group_share_record_lock_duration_ms == 20_000
    assert (settings.group_share_delivery_count_limit, settings.group_share_partition_max_record_locks) == (5, 200)


def test_the_states_of_a_record() -> None:
    """testRecordStateValidateTransition, testRecordStateForId, testAckTypeToRecordStateMapping: what is final does not
    change, and no state follows itself"""
    assert [RecordState(number).name for number in range(5)] == [
        "AVAILABLE",
        "ACQUIRED",
        "ACKNOWLEDGED",
        "ARCHIVING",
        "ARCHIVED",
    ]
    with pytest.raises(ValueError):
        RecordState(5)
    assert not any(before.is_final or row.after is before for (_, before), row in TRANSITIONS.items())
    assert all(
        row.before is not RecordState.AVAILABLE or row.after is not RecordState.ACKNOWLEDGED
        for row in TRANSITIONS.values()
    )
    after = {
        cause: next_state(cause, RecordState.ACQUIRED, at_limit=False, dead_letters=False)
        for cause in (RecordCause.NO_RECORD, RecordCause.ACCEPTED, RecordCause.RELEASED, RecordCause.REJECTED)
    }
    assert [state.name for state in after.values()] == ["ARCHIVED", "ACKNOWLEDGED", "AVAILABLE", "ARCHIVED"]
