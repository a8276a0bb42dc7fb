"""What the journal says of a coordinator that moved: a line for each group with members of the partition that was loaded."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.shard import Shard


@dataclass(frozen=True, slots=True)
class CoordinatorElection:
    """This broker leads a partition of `__consumer_offsets` since ``elected_ms``. ``former``: the leader before, None where
    that is not known."""

    broker_id: int
    leader_epoch: int
    former: int | None
    elected_ms: int


def moved_lines(shard: Shard, election: CoordinatorElection, now_ms: int) -> list[JournalLine]:
    """The shard has been loaded."""
    groups = list(shard.every_group())
    former = None if election.former == election.broker_id else election.former
    return [
        JournalLine(
            now_ms,
            group.group_id,
            group.generation,
            "coordinator_moved",
            group.phase.value,
            group.phase.value,
            members=len(group.members),
            coordinator=election.broker_id,
            coordinator_from=former,
            coordinator_epoch=election.leader_epoch,
            loaded_groups=len(groups),
            load_ms=now_ms - election.elected_ms,
        )
        for group in groups
        if group.members
    ]
