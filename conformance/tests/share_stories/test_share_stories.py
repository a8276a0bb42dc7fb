"""Stories of share groups: a few seeds with one broker and with three, and planted defects that the checkers see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.share import hosted_share_partition as hosting
from coterie.broker.share import share_hosting as hosting_of_all
from coterie.share import acquiring, partition, states
from coterie.share.dead_letters import DeadRecords
from coterie.share.partition import SharePartition, StateWrite
from coterie.share.states import RecordCause, RecordState
from coterie_conformance.share_stories.share_story import run_share_seed
from coterie_conformance.stories.story import FuzzFailure

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(4))
def test_a_story_with_one_broker(seed: int) -> None:
    report = run_share_seed(seed, brokers=1)
    assert report.acknowledged > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_story_with_three_brokers(seed: int) -> None:
    report = run_share_seed(seed, brokers=3)
    assert report.acknowledged > 0


def test_a_seed_repeats_itself() -> None:
    assert run_share_seed(3, brokers=1) == run_share_seed(3, brokers=1)


# -- planted defects --------------------------------------------------------------------------------------------------


def forget_acceptances(patch: pytest.MonkeyPatch) -> None:
    """An accepted record is released."""
    before = states.next_state

    def next_state(cause: RecordCause, state: RecordState, **options: Any) -> RecordState:
        return before(RecordCause.RELEASED if cause is RecordCause.ACCEPTED else cause, state, **options)

    patch.setattr(partition, "next_state", next_state)


def deliver_for_ever(patch: pytest.MonkeyPatch) -> None:
    """The delivery limit counts for nothing."""
    before = states.next_state

    def next_state(cause: RecordCause, state: RecordState, **options: Any) -> RecordState:
        return before(cause, state, **options | {"at_limit": False})

    patch.setattr(partition, "next_state", next_state)


def lose_releases(patch: pytest.MonkeyPatch) -> None:
    """A released record is archived."""
    before = states.next_state

    def next_state(cause: RecordCause, state: RecordState, **options: Any) -> RecordState:
        return RecordState.ARCHIVED if cause is RecordCause.RELEASED else before(cause, state, **options)

    patch.setattr(partition, "next_state", next_state)


def acquire_backwards(patch: pytest.MonkeyPatch) -> None:
    """The parts of a response come in the wrong order."""
    before = acquiring.acquire
    patch.setattr(hosting, "acquire", lambda *arguments: before(*arguments)[::-1])


def move_start_back(patch: pytest.MonkeyPatch) -> None:
    """Each write takes the start offset back."""
    before = SharePartition.written

    def written(self: SharePartition, write: StateWrite, now_ms: int, *, kept: bool) -> bool:
        moved = before(self, write, now_ms, kept=kept)
        self.start_offset = max(self.start_offset - 1, 0) if write.number % 5 == 0 else self.start_offset
        return moved

    patch.setattr(SharePartition, "written", written)


def acknowledge_without_writing(patch: pytest.MonkeyPatch) -> None:
    """Nothing reaches the share coordinator, which a broker that dies then lacks."""
    before = hosting.HostedSharePartition._write

    def write(self: hosting.HostedSharePartition, write: StateWrite, done: hosting.Done) -> None:
        write.batches = write.batches[:0] if write.number % 3 == 0 else write.batches
        if not write.batches:
            self.state.written(write, 0, kept=True)
        before(self, write, done)

    patch.setattr(hosting.HostedSharePartition, "_write", write)


def lose_letters(patch: pytest.MonkeyPatch) -> None:
    """Dead records are archived without a letter."""

    def bury(self: hosting_of_all.ShareHosting, hosted: Any, records: Any, done: Callable[[], None]) -> None:
        done()

    patch.setattr(hosting_of_all.ShareHosting, "bury", bury)


def bury_accepted(patch: pytest.MonkeyPatch) -> None:
    """Each accepted record has a letter."""
    before = SharePartition.leave

    def leave(self: SharePartition, run: Any, cause: RecordCause, write: StateWrite, **options: bool) -> None:
        member = run.member_id
        before(self, run, cause, write, **options)
        if cause is RecordCause.ACCEPTED:
            write.dead_letters.append(DeadRecords(run.first, run.last, run.delivery_count, "accepted", member))

    patch.setattr(SharePartition, "leave", leave)


def run_seeds(count: int) -> None:
    for seed in range(count):
        run_share_seed(seed, brokers=1)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (forget_acceptances, "after it was accepted|by a member that had lost it"),
        (deliver_for_ever, "is delivered for the"),
        (lose_releases, "every record is accepted after|is lost"),
        (acquire_backwards, "come after"),
        (move_start_back, "the start offset went back"),
        (lose_letters, "every letter is there after"),
        (bury_accepted, "was accepted, and has a dead letter"),
        (acknowledge_without_writing, "is delivered to .* after it was|start offset went back"),
    ],
)
def test_a_planted_defect_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(FuzzFailure, match=says):
        run_seeds(12)
