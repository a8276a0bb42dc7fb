"""What a member of an eager sticky group puts into its subscription's user data: the partitions of its last assignment
(v0) and that assignment's generation (v1, KIP-341). No version is written; a reader tries the newer first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.wire.declaration import Message, array, field, int32, message
from coterie.wire.messages.stored.consumer_protocol import TopicPartitions


@message(versions="0-1")
class StickyAssignorUserData(Message):
    previous_assignment: list[TopicPartitions] = field(array(TopicPartitions))
    generation: int = field(int32, "1+", default=-1)

    @classmethod
    def of(cls, owned: Mapping[str, Sequence[int]], generation: int) -> StickyAssignorUserData:
        return cls([TopicPartitions(t, list(ps)) for t, ps in sorted(owned.items())], generation)
