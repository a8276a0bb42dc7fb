"""Until which version requests name their topics: later ones have the topics' ids instead (KIP-516)."""

from __future__ import annotations

FETCH = PRODUCE = 12
OFFSET_COMMIT = OFFSET_FETCH = 9
TXN_OFFSET_COMMIT = 5
# The last version of each API, by key, in which neither request nor response has a topic's id; None: every version has.
LAST_WITHOUT_IDS: dict[int, int | None] = {
    0: PRODUCE,
    1: FETCH,
    3: 9,  # Metadata
    8: OFFSET_COMMIT,
    9: OFFSET_FETCH,
    19: 6,  # CreateTopics
    20: 5,  # DeleteTopics
    28: TXN_OFFSET_COMMIT,
    68: None,  # ConsumerGroupHeartbeat
    69: None,  # ConsumerGroupDescribe
    75: None,  # DescribeTopicPartitions
    78: None,  # ShareFetch
    79: None,  # ShareAcknowledge
}
