"""Clients' regular expressions: RE2, whole names, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.groups.topics_view import NAMES_A_STEP, TopicsView, resolving
from coterie.broker.process.patterns import BadPattern, matcher, subscription_problem
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.turns import finish
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topics import Topics
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.log.filesystem import MemoryFileSystem

# Patterns that mean the same to RE2 and to Python's `re`.
ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "\\.", "(?:ab)", "\\d"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"(?:{one})?"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab-.1", max_size=6))
def test_a_name_matches_as_a_whole(pattern: str, name: str) -> None:
    assert matcher(pattern)(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """Python's `re` would take longer than a day for each."""
    assert not matcher(pattern)("a" * 249 + "c")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[", "missing ]"),
        ("(", "missing )"),
        ("a{1001}", "repetition"),
        ("(?<=a)b", "perl operator"),
        ("\\1", "escape"),
    ],
)
def test_a_bad_pattern_has_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(BadPattern, match=re.escape(reason)):
        matcher(pattern)
    text = subscription_problem(pattern)
    assert text is not None
    assert text.startswith(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: ")
    assert subscription_problem("orders.*") is None


def test_topics_are_resolved_in_steps() -> None:
    names = [f"t{n}" for n in range(3 * NAMES_A_STEP)]
    image = TopicsImage({name: TopicImage(name, name.encode(), 1) for name in names})
    steps = resolving(["t1", "t.*9", "["], image)
    for _ in range(3):
        next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == {
        "t1": {"t1"},
        "t.*9": {name for name in names if name.endswith("9")},
        "[": frozenset(),
    }


def test_the_image_follows_the_topics() -> None:
    """The same until a topic changes; its versions rise, also beyond those of an earlier process, and tell what is new."""
    clock, topics = Clock(), Topics(MemoryFileSystem(), BrokerSettings())
    view = TopicsView(topics, clock)
    empty = view.image()
    assert view.image() is empty
    assert empty.version == empty.created_version > 1_600_000_000_000
    orders = topics.create("orders", 1)
    created = view.image()
    assert created.version > empty.version
    assert created.created_version == created.version
    assert created.topics["orders"] == TopicImage("orders", orders.topic_id, 1)
    finish(topics.adding_partitions(orders, 3))
    extended = view.image()
    assert extended.version > created.version
    assert extended.created_version == created.version
    assert extended.topics["orders"].partitions == 3
    finish(topics.deleting(orders))
    assert view.image().topics == {}
    assert view.image().created_version == created.version
    topics.close()
