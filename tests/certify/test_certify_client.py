"""`coterie certify-client` around real processes: each planted defect is found by its rule, and a right client has none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.certify.client.roles import STORIES
from coterie.cli import main

BAD_CLIENTS = Path(__file__).parent / "bad_clients.py"
WORDS = ("{bootstrap}", "{group}", "{topic}")
RIGHT = [sys.executable, "-m", "coterie.certify.client.companion", *WORDS]

# Each defect of a consumer, a story, and the rule that finds it.
CONSUMERS = [
    ("commits first", "quiet", "committed unprocessed"),
    ("drops one", "quiet", "skipped"),
    ("from the beginning", "killed and started", "duplicated"),
    ("stops reading", "quiet", "stuck"),
    ("ignores the group", "fenced", "two at once"),
    ("never commits", "quiet", "uncommitted"),
    ("commits back", "quiet", "rewound"),
    ("gives up", "quiet", "ended"),
]
PRODUCERS = [
    ("loses", "at-least-once", "lost"),
    ("swallows", "at-least-once", "stuck"),
    ("sends again", "exactly-once", "duplicated"),
    ("swaps", "exactly-once", "out of order"),
]


def certify(*words: str) -> Result:
    return CliRunner().invoke(main, ["certify-client", *words], catch_exceptions=False)


def broken_rules(result: Result) -> set[str]:
    (row,) = json.loads(result.stdout)
    for finding in row["findings"]:
        assert finding["text"]
        assert finding["at_s"] > 0
    return {finding["rule"] for finding in row["findings"]}


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "story", "rule"), CONSUMERS, ids=[row[0] for row in CONSUMERS])
def test_a_planted_defect_of_a_consumer_is_found(defect: str, story: str, rule: str) -> None:
    command = [sys.executable, str(BAD_CLIENTS), *WORDS, defect]
    result = certify("--story", story, "--patience", "10", "--json", "--", *command)
    assert rule in broken_rules(result)
    assert result.exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "delivery", "rule"), PRODUCERS, ids=[row[0] for row in PRODUCERS])
def test_a_planted_defect_of_a_producer_is_found(defect: str, delivery: str, rule: str) -> None:
    command = [sys.executable, str(BAD_CLIENTS), *WORDS, f"producer: {defect}"]
    options = ("--role", "producer", "--story", "quiet", "--delivery", delivery, "--patience", "10", "--json")
    assert rule in broken_rules(certify(*options, "--", *command))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_right_consumer_has_no_finding(protocol: str) -> None:
    names = ("fenced", "killed and started", "transactions", "offsets lost", "the coordinator dies", "the log is cut")
    chosen = [word for name in names for word in ("--story", name)]
    result = certify(*chosen, "--", *RIGHT, protocol)
    assert result.exit_code == 0, result.output
    assert "6 stories: 6 right, 0 wrong, 0 not met" in result.output


@pytest.mark.slow
def test_a_member_id_that_was_lost_expires_before_the_end() -> None:
    """The rebalance waits for it, on Kafka until its session timeout."""
    result = certify("--story", "join response lost", "--", *RIGHT, "classic")
    assert "1 right" in result.output, result.output


@pytest.mark.slow
def test_a_right_producer_has_no_finding() -> None:
    command = [sys.executable, str(BAD_CLIENTS), *WORDS, "producer: none"]
    result = certify("--role", "producer", "--delivery", "exactly-once", "--", *command)
    assert result.exit_code == 0, result.output
    assert "0 wrong, 0 not met" in result.output


@pytest.mark.slow
def test_a_story_whose_fault_never_came_is_not_met() -> None:
    result = certify("--story", "consumer heartbeat fenced", "--", *RIGHT, "classic")
    assert "not met  consumer heartbeat fenced: the client sent no ConsumerGroupHeartbeat" in result.output
    assert result.exit_code == 0


def test_every_story_of_the_table_can_be_read() -> None:
    for role, stories in STORIES.items():
        assert len({story.name for story in stories}) == len(stories)
        for story in stories:
            assert story.role == role
            story.actions()
    assert sum(map(len, STORIES.values())) >= 50


def test_the_list_has_each_story_with_its_steps() -> None:
    listed = certify("--list").output
    assert all(story.name in listed for story in STORIES["consumer"])
    assert "freeze 0; bury; read 100; thaw 0" in listed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "certify-client needs the program's command, behind --."),
        (("--story", "none", "--", "x"), "There is no story 'none' of a consumer; --list has all of them."),
        (("--delivery", "exactly-once", "--", "x"), "--delivery of a consumer is at-least-once or at-most-once"),
    ],
)
def test_wrong_arguments(words: tuple[str, ...], sentence: str) -> None:
    result = certify(*words)
    assert result.exit_code == 2
    assert sentence in result.output


def test_a_command_that_cannot_be_started() -> None:
    result = certify("--story", "quiet", "--", "/no/such/program")
    assert result.exit_code == 1
    assert "/no/such/program cannot be started: No such file or directory" in result.output
