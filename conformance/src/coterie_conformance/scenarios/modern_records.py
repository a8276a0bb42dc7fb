"""Records of share groups and streams groups, for the observer's scenarios."""

from __future__ import annotations

from coterie.coordinator.events import Event
from coterie.coordinator.share import events as h
from coterie.coordinator.share.state import ShareSubscription, StatePartitions, StateTopic
from coterie.coordinator.streams import events as s
from coterie.coordinator.streams.state import StreamsMetadata

TOPIC_ID = b"orders".ljust(16, b"-")


class ModernRecords:
    """Of one group; ``kind`` is share or streams. A member id is NAME-LIFE."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def member(self, member_id: str, options: dict[str, str]) -> Event:
        """A member, as it is from now on."""
        client_id = member_id.split("-")[0]
        if self.kind == "share":
            topics = frozenset(options.get("topics", "orders").split(","))
            return h.ShareMemberStored(member_id, ShareSubscription(topics, client_id=client_id))
        process_id = options.get("process", member_id)
        return s.StreamsMetadataStored(member_id, StreamsMetadata(client_id=client_id, process_id=process_id))

    def gone(self, member_id: str) -> Event:
        """Its tombstone."""
        return h.ShareMemberRemoved(member_id) if self.kind == "share" else s.StreamsMetadataRemoved(member_id)

    def epoch(self, epoch: int, options: dict[str, str]) -> Event:
        """``hash`` of the subscribed topics; of a streams group also the validated ``topology``, -1: topics are lacking."""
        metadata_hash = int(options.get("hash", "7"))
        if self.kind == "share":
            return h.ShareEpochStored(epoch, metadata_hash)
        return s.StreamsEpochStored(epoch, metadata_hash, int(options.get("topology", "0")))

    def states(self, partitions: int) -> Event:
        """So many partitions of the topic have a state at the share coordinator."""
        return h.StatePartitionsStored(
            StatePartitions(initialized={TOPIC_ID: StateTopic("orders", frozenset(range(partitions)))})
        )

    def ended(self) -> Event:
        """The group's tombstone."""
        return h.ShareEpochRemoved() if self.kind == "share" else s.StreamsEpochRemoved()
