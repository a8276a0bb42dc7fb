"""Steps of several consumers of one group towards their target share a batch, and change no response and no state by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator import write_queue
from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.steps import single_member_step
from coterie.coordinator.outcome import Context
from coterie.laboratory.group_checkers import check_replay
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coordinator.test_write_queue import Driver, batches_of

TOPICS = TopicsImage({"t": TopicImage("t", b"t" * 16, 12)}, version=1)
MEMBERS = 6
BEAT, JOIN, LEAVE, STATIC_LEAVE = "beat", "join", "leave", "static leave"
Action = tuple[int, str]  # of a member by its number; those with an odd one are static


class Crew:
    """Members of one group over a shard; ``together``: the requests of a round share a turn."""

    def __init__(self, *, together: bool) -> None:
        self.driver, self.together = Driver(max_batch_bytes=1_000_000), together
        self.epochs, self.assigned = dict[int, int](), dict[int, list[TopicPartitions]]()
        self.now_ms, self.tokens, self.incarnations = 1_000, 0, [0] * MEMBERS

    def request(self, number: int, action: str) -> ConsumerGroupHeartbeatRequest | None:
        """None where a member in this state sends no such request."""
        joins = action == JOIN
        if joins and self.epochs.get(number, -1) < 0:
            self.incarnations[number] += 1
        instance_id = f"i{number}" if number % 2 else None
        request = ConsumerGroupHeartbeatRequest("g", f"m{number}-{self.incarnations[number]}", 0, instance_id)
        if joins:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 60_000, ["t"]
            request.topic_partitions = []
            return request
        if self.epochs.get(number, -1) <= 0:
            return None
        request.member_epoch = self.epochs[number]
        if action == BEAT:
            request.topic_partitions = self.assigned.pop(number, None)
        else:
            request.member_epoch = -2 if action == STATIC_LEAVE and instance_id else -1
        return request

    def round(self, actions: Sequence[Action], *, wait_ms: int) -> list[tuple[int, ConsumerGroupHeartbeatResponse]]:
        """The responses, in the order of the requests."""
        self.now_ms += wait_ms
        sent = dict[int, int]()
        for number, action in dict(actions).items():
            request = self.request(number, action)
            if request is None:
                continue
            self.tokens += 1
            sent[number] = self.tokens
            self.driver.ledger.requested(self.tokens)
            context = Context(self.now_ms, self.tokens, str(self.tokens), 1, "c", "/h", TOPICS)
            self.driver.queue.execute(request, context)
            if not self.together:
                self.driver.write()
        self.driver.write()
        responses = [(number, self.driver.responses[token]) for number, token in sent.items()]
        for number, response in responses:
            self._take(number, response)
        return responses

    def _take(self, number: int, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epochs[number] = -1 if response.error_code else response.member_epoch
        if response.assignment is not None:
            self.assigned[number] = response.assignment.topic_partitions


actions = st.tuples(st.integers(0, MEMBERS - 1), st.sampled_from([BEAT] * 8 + [JOIN] * 2 + [LEAVE, STATIC_LEAVE]))
rounds = st.tuples(st.lists(actions, min_size=2, max_size=8), st.sampled_from([0, 0, 1_100]))
EVERYBODY = [(number, BEAT) for number in range(MEMBERS)]
JOINS = ([(number, JOIN) for number in range(MEMBERS)], 1_100)


def tell(story: Sequence[tuple[Sequence[Action], int]]) -> tuple[int, int]:
    """Carries a story out both ways; returns how many batches each wrote."""
    together, apart = Crew(together=True), Crew(together=False)
    for actions_of_round, wait_ms in story:
        assert together.round(actions_of_round, wait_ms=wait_ms) == apart.round(actions_of_round, wait_ms=wait_ms)
    check_replay(together.driver.shard, apart.driver.shard)
    assert together.driver.log.log.end_offset == apart.driver.log.log.end_offset
    return len(batches_of(together.driver)), len(batches_of(apart.driver))


@settings(max_examples=60)
@given(st.lists(rounds, min_size=4, max_size=12))
def test_a_shared_batch_changes_no_response_and_no_state(story: list[tuple[list[Action], int]]) -> None:
    tell([JOINS, (EVERYBODY, 1_100), (EVERYBODY, 0), *story, (EVERYBODY, 1_100), (EVERYBODY, 0)])


def settled() -> Crew:
    crew = Crew(together=True)
    crew.round(JOINS[0], wait_ms=1_100)
    for _ in range(4):
        crew.round(EVERYBODY, wait_ms=1_100)
    assert len(set(crew.epochs.values())) == 1
    return crew


def test_the_steps_of_a_turn_are_one_batch() -> None:
    crew = settled()
    crew.round([(5, LEAVE)], wait_ms=1_100)
    crew.round([(0, BEAT)], wait_ms=1_100)  # computes the target
    before = len(batches_of(crew.driver))
    crew.round([(1, BEAT), (2, BEAT), (3, BEAT), (4, BEAT)], wait_ms=0)
    assert batches_of(crew.driver)[before:] == [4]


def _any_step(group: object, events: Sequence[object]) -> str | None:
    member_id = getattr(events[0], "member_id", None) if len(events) == 1 else None
    return member_id if isinstance(member_id, str) else None


def _anything(group: object, events: Sequence[object]) -> str | None:
    return single_member_step(group, events) or str(getattr(events[0], "member_id", "")) if events else None


@pytest.mark.parametrize("too_broad", [_any_step, _anything])
def test_a_broader_rule_is_noticed(
    too_broad: Callable[[object, Sequence[object]], str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release, and the departure of a static member, are not decided beside."""
    monkeypatch.setattr(write_queue, "single_member_step", too_broad)
    joins = [[(n, JOIN) for n in range(4)], EVERYBODY, EVERYBODY, [(4, JOIN)], EVERYBODY, EVERYBODY, EVERYBODY]
    with pytest.raises(AssertionError):
        tell([(actions_of_round, 1_100) for actions_of_round in joins])
