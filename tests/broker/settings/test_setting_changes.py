"""What alterations of settings come to, beside a model of lists; every setting of the broker is asked whether it may change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.settings.altered_settings import Change, Operation, changed, check_dynamic
from coterie.broker.settings.broker_settings import BrokerSettings
from coterie.broker.settings.setting import Update
from coterie.broker.settings.tables.broker_table import BROKER_SETTINGS
from coterie.broker.settings.tables.topic_table import TOPIC_SETTINGS
from coterie.configuration import Kind
from coterie.wire.errors import ErrorCode, Refusal

SETTINGS = {name: topic.setting for name, topic in TOPIC_SETTINGS.items()}
LISTS = sorted(name for name, setting in SETTINGS.items() if setting.kind == Kind.LIST)
SCALARS = ["retention.ms", "compression.type", "a.plugins.own"]
ELEMENTS = ["compact", "delete", "0:1", "1:0"]
THREADS = ("num.io.threads", "num.network.threads", "background.threads", "log.cleaner.threads")

lists = st.lists(st.sampled_from(ELEMENTS), max_size=5).map(",".join)
padded = st.lists(st.sampled_from([*ELEMENTS, " compact ", "delete  ", ""]), max_size=5).map(",".join)
current = st.dictionaries(st.sampled_from(LISTS), lists) | st.dictionaries(
    st.sampled_from(SCALARS), st.text(max_size=3)
)


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    names = draw(st.lists(st.sampled_from(LISTS + SCALARS), unique=True, max_size=6))
    return [
        Change(
            n, draw(st.sampled_from(list(Operation) if n in LISTS else [Operation.SET, Operation.DELETE])), draw(padded)
        )
        for n in names
    ]


def parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def expected(before: dict[str, str], change: Change) -> str | None:
    """The value of one setting after one change; None for none."""
    assert change.value is not None
    if change.operation == Operation.DELETE:
        return None
    if change.operation == Operation.SET:
        return change.value
    default = SETTINGS[change.name].default
    assert isinstance(default, tuple)
    elements = parts(before[change.name]) if change.name in before else list(default)
    for element in parts(change.value) or [""]:
        if change.operation == Operation.SUBTRACT:
            elements = [e for e in elements if e != element]
        elif element not in elements:
            elements.append(element)
    return ",".join(dict.fromkeys(elements) if change.operation == Operation.APPEND else elements)


@given(current, changes())
def test_each_setting_is_as_a_model_of_lists_has_it(before: dict[str, str], altered: list[Change]) -> None:
    kept = dict(before)
    after = changed(before, altered, SETTINGS)
    assert before == kept, "the caller's settings are as they were"
    for change in altered:
        assert after.get(change.name) == expected(before, change)
    others = before.keys() - {change.name for change in altered}
    assert {name: after[name] for name in others} == {name: before[name] for name in others}
    assert after.keys() <= others | {change.name for change in altered}


@given(current, st.sampled_from(LISTS), padded)
def test_what_is_appended_twice_is_there_once_and_what_is_subtracted_is_gone(
    before: dict[str, str], name: str, value: str
) -> None:
    append = [Change(name, Operation.APPEND, value)]
    once = changed(before, append, SETTINGS)
    assert changed(once, append, SETTINGS) == once
    without = changed(once, [Change(name, Operation.SUBTRACT, value)], SETTINGS)
    assert not set(parts(value)) & set(parts(without[name]))


def test_an_empty_text_is_an_element_as_in_kafka() -> None:
    for before, after in (("compact", "compact,"), ("compact,delete", "compact,delete,")):
        assert changed({"cleanup.policy": before}, [Change("cleanup.policy", Operation.APPEND, " ")], SETTINGS) == {
            "cleanup.policy": after
        }


@pytest.mark.parametrize(
    ("altered", "code", "text"),
    [
        ([Change("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST, "no operation 4"),
        ([Change("retention.ms", -1, "1")], ErrorCode.INVALID_REQUEST, "no operation -1"),
        ([Change("retention.ms", Operation.SET, None)], ErrorCode.INVALID_REQUEST, "no value for retention.ms"),
        ([Change("cleanup.policy", Operation.APPEND, None)], ErrorCode.INVALID_REQUEST, "no value for cleanup.policy"),
        (  # ConfigAdminManager.preprocess looks for these first
            [Change("retention.ms", Operation.APPEND, "1"), Change("b", Operation.SET, None), Change("a", 4, None)],
            ErrorCode.INVALID_REQUEST,
            "no value for b, a",
        ),
        ([Change("retention.ms", Operation.APPEND, "1")], ErrorCode.INVALID_CONFIG, "retention.ms is not a list"),
        ([Change("nobody.knows", Operation.SUBTRACT, "1")], ErrorCode.INVALID_CONFIG, "nobody.knows is not a list"),
        (
            [Change(name, Operation.SET, "1") for name in ("b", "a", "c", "b", "a")],
            ErrorCode.INVALID_REQUEST,
            "a, b given more than once",
        ),
    ],
)
def test_what_is_refused(altered: list[Change], code: ErrorCode, text: str) -> None:
    with pytest.raises(Refusal, match=text) as refused:
        changed({"retention.ms": "5"}, altered, SETTINGS)
    assert refused.value.code == code


def refusal(configs: dict[str, str], *, cluster: bool, settings: BrokerSettings | None = None) -> str:
    """The code and text of the refusal of these broker settings; empty where they are accepted."""
    try:
        check_dynamic(settings or BrokerSettings({}), configs, cluster=cluster)
    except Refusal as refused:
        return f"{refused.code.name}: {refused}"
    return ""


@pytest.mark.parametrize("cluster", [False, True])
def test_every_setting_of_the_broker_may_change_where_its_row_permits(cluster: bool) -> None:
    for name, setting in BROKER_SETTINGS.items():
        text = refusal({name: "no value of any type, surely"}, cluster=cluster)
        of_listener = refusal({f"listener.name.inside.{name}": "no value of any type, surely"}, cluster=cluster)
        if setting.update == Update.READ_ONLY:
            assert text == f"INVALID_REQUEST: {name} cannot be changed while the broker runs"
            assert "cannot be changed while the broker runs" in of_listener, name
        elif setting.update == Update.PER_BROKER and cluster:
            assert "name the broker" in text, name
            assert "name the broker" in of_listener, name
        else:
            assert "while the broker runs" not in text, name
            assert "name the broker" not in text, name


@pytest.mark.parametrize("name", THREADS)
def test_a_pool_of_threads_at_most_doubles_or_halves(name: str) -> None:
    settings = BrokerSettings({name: "6"})
    accepted = [n for n in range(1, 20) if not refusal({name: str(n)}, cluster=True, settings=settings)]
    assert accepted == list(range(3, 13))


@pytest.mark.parametrize(("text", "accepted"), [("0", True), ("1000", True), ("-1", False), ("much", False)])
def test_the_limits_of_replication_are_numbers_not_below_zero(text: str, accepted: bool) -> None:
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        assert (refusal({name: text}, cluster=False) == "") == accepted


def test_a_plugins_settings_are_accepted() -> None:
    assert refusal({"a.plugins.own": "anything"}, cluster=True) == ""
