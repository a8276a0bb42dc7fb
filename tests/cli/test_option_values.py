"""Names of topics and groups that a shell completes, asked as bash asks: by variables of the environment. The numbers of
options: what any text becomes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli import main
from coterie.cli.parts.option_values import IntegerRange, NumberRange
from coterie.client.blocking import BlockingAdmin
from coterie.testing import LocalBroker
from tests.cli.test_every_command import LEAVES


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as local:
        for name in ("orders", "orders-archive", "flights"):
            local.create_topic(name)
        with BlockingAdmin({"bootstrap.servers": local.bootstrap_servers}) as admin:
            for group in ("billing", "crew"):
                admin.alter_consumer_group_offsets(group, {("orders", 0): 0})
        yield local


def completed(line: str, incomplete: str, server: str) -> list[str]:
    with CliRunner(env={"COTERIE_BOOTSTRAP_SERVER": server}).isolation():
        completion = BashComplete(main, {}, "coterie", "_COTERIE_COMPLETE")
        return [item.value for item in completion.get_completions(line.split(), incomplete)]


@pytest.mark.parametrize(
    ("line", "incomplete", "names"),
    [
        ("topics describe", "or", ["orders", "orders-archive"]),
        ("topics delete", "f", ["flights"]),
        ("topics grow", "", ["flights", "orders", "orders-archive"]),
        ("topics elect orders", "orders", ["orders-archive"]),
        ("topics reassign", "fl", ["flights"]),
        ("topics describe", "__cons", ["__consumer_offsets"]),
        ("topics create", "or", []),
        ("produce", "fl", ["flights"]),
        ("consume", "orders-", ["orders-archive"]),
        ("consume orders --group", "", ["billing", "crew"]),
        ("groups describe", "cr", ["crew"]),
        ("groups why", "", ["billing", "crew"]),
        ("groups watch", "b", ["billing"]),
        ("groups history", "x", []),
        ("groups reset crew --topic", "fl", ["flights"]),
    ],
)
def test_names_of_the_broker(broker: LocalBroker, line: str, incomplete: str, names: list[str]) -> None:
    assert completed(line, incomplete, broker.bootstrap_servers) == names


def test_the_server_on_the_command_line(broker: LocalBroker) -> None:
    assert completed(f"topics describe -b {broker.bootstrap_servers}", "f", "127.0.0.1:1") == ["flights"]


def test_a_broker_that_is_away_has_no_names(capfd: pytest.CaptureFixture[str]) -> None:
    assert completed("groups describe", "", "127.0.0.1:1") == []
    assert capfd.readouterr() == ("", "")


def test_every_argument_that_names_a_topic_or_a_group_is_completed() -> None:
    own = {("topics", "create"), ("pipeline", "as-of")}  # a new name; a group of the past
    missing = [
        " ".join(words)
        for words, command in LEAVES.items()
        if words not in own and words[0] != "pipeline"
        for parameter in command.params
        if isinstance(parameter, click.Argument) and parameter.name in ("topic", "topics", "group")
        if parameter._custom_shell_complete is None
    ]
    assert not missing


@given(st.text() | st.integers().map(str) | st.floats().map(str))
def test_a_text_is_a_number_within_the_range_or_refused(text: str) -> None:
    kinds: list[tuple[Any, float, float]] = [(IntegerRange(-3, 1000), -3, 1000), (NumberRange(0.5, 1e9), 0.5, 1e9)]
    for kind, low, high in kinds:
        try:
            number = kind.convert(text, None, None)
        except click.BadParameter as error:
            message = error.message
        else:
            message = ""
            assert low <= number <= high
        assert "range." not in message


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999"])
def test_a_number_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a finite number"):
        NumberRange().convert(text, None, None)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_finite_number_is_taken_as_it_is(number: float) -> None:
    assert math.isclose(NumberRange().convert(repr(number), None, None), number)
