"""The inter.broker.protocol.version of a cluster, and what a broker of Apache Kafka 2.6 beside coterie's lacks.

Such a broker knows no topic ids (KIP-516). It cannot load a partition of `__consumer_offsets` with a record of a consumer group
(KIP-848, keys above 2) or of an offset with a topic id (values of version 4), nor one of `__transaction_state` with values of
version 1.
"""

from __future__ import annotations

import re

OLDEST_PROTOCOL = (2, 6)
_TOPIC_IDS_FROM = (2, 8)
_VERSION = r"(\d+)\.(\d+)(?:\.\d+)?(?:-IV\d+)?"


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor number; None for what is no version."""
    match = re.fullmatch(_VERSION, text.strip())
    return None if match is None else (int(match[1]), int(match[2]))


def lacks_topic_ids(text: str) -> bool:
    """Whether brokers of that version may be in the cluster that know neither topic ids nor what came after them."""
    version = version_of(text)
    return version is not None and version < _TOPIC_IDS_FROM
