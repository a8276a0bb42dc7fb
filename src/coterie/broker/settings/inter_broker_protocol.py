"""The inter.broker.protocol.version of a cluster, and what a broker of Apache Kafka 2.6 beside coterie's lacks.

Such a broker knows no topic ids (KIP-516). It cannot load a partition of `__consumer_offsets` with a record of a consumer group
(KIP-848, keys above 2) or of an offset with a topic id (values of version 4), nor one of `__transaction_state` with values of
version 1.
"""

from __future__ import annotations

from coterie.broker.settings.metadata_versions import release_of

_OLDEST = (2, 6)
_TOPIC_IDS_FROM = (2, 8)


def is_spoken(text: str) -> bool:
    """Whether brokers of this package speak that version of the protocol."""
    release = release_of(text)
    return release is not None and release >= _OLDEST


def lacks_topic_ids(text: str) -> bool:
    """Whether brokers of that version may be in the cluster that know neither topic ids nor what came after them."""
    release = release_of(text)
    return release is not None and release < _TOPIC_IDS_FROM
