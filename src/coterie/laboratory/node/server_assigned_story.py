"""One seed, one story of whole clients in a group of the consumer protocol (KIP-848): the broker assigns, and each member is
reconciled by its own heartbeats; in every third seed some members are of the classic protocol, and the group changes its
protocol while it lives, with who comes and goes.

The rules are those of `consumer_story`, and that no member reads what the coordinator may give to others.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.laboratory.member_actor import GROUP
from coterie.laboratory.node.consumer_story import ConsumersStory
from coterie.laboratory.node.copying_story import CopyingStory
from coterie.laboratory.node.group_consumers import AnyConsumer, ClassicConsumer
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.wire.errors import ErrorCode

CLASSIC_SHARES = (0.0, 0.0, 0.6)  # of the members after the first


class ServerAssignedStory(ConsumersStory):
    """A `ConsumersStory` whose first consumer, and most others, are of the consumer protocol."""

    def _broker_settings(self) -> Mapping[str, str]:
        rng = self.world.random
        return {
            **super()._broker_settings(),
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.session.timeout.ms": str(rng.choice([6_000, 20_000])),
            "group.consumer.heartbeat.interval.ms": str(rng.choice([500, 1_000, 2_000])),
            "group.consumer.assignment.interval.ms": str(rng.choice([0, 1_000, 3_000])),
        }

    def _config(self, number: int) -> MemberConfig | ConsumerMemberConfig:
        rng = self.world.random
        if number and rng.random() < CLASSIC_SHARES[self.seed % len(CLASSIC_SHARES)]:
            return super()._config(number)
        return ConsumerMemberConfig(
            GROUP,
            "",  # each process chooses its own
            f"i{number}" if rng.random() < 0.3 else None,
            max_poll_interval_ms=rng.choice([10_000, 30_000]),
            remote_assignor=rng.choice([None, "uniform", "range"]),
        )

    def _may_end_by(self, consumer: AnyConsumer) -> frozenset[ErrorCode]:
        """A classic member that has joined but not synced when the group is upgraded is refused its SyncGroup where its first
        assignor is not the one that the group had, as by Kafka 4.3 (tests/spec/consumer/migration.txt)."""
        ends = super()._may_end_by(consumer)
        return ends | {ErrorCode.INCONSISTENT_GROUP_PROTOCOL} if isinstance(consumer, ClassicConsumer) else ends


class ServerAssignedCopyingStory(CopyingStory, ServerAssignedStory):
    """A `CopyingStory` in such a group."""
