"""The versions that Apache Kafka 3.9 knows, and how it reads one: inter.broker.protocol.version, message.format.version; and
what a broker of Apache Kafka 2.6 beside coterie's lacks.

Facts: org.apache.kafka.server.common.MetadataVersion of 3.9.1, whose names and readings are recorded in
`tests/broker/data/metadata-versions-of-kafka-3.9.1.json`. Before 0.10 a release has no internal versions. Those of 4.0 were
under way, so that they can be named and the release itself cannot.

A broker of 2.6 knows no topic ids (KIP-516). It cannot load a partition of `__consumer_offsets` with a record of a consumer
group (KIP-848, keys above 2) or of an offset with a topic id (values of version 4), nor one of `__transaction_state` with
values of version 1.
"""

from __future__ import annotations

# release -> the number of its internal versions
_RELEASES = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0, "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1, "1.1": 1,
    "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1,
    "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1, "4.0": 2,
}  # fmt: skip
_UNRELEASED = "4.0"
_RELEASE_OF = {release: release for release in _RELEASES if release != _UNRELEASED} | {
    f"{release}-IV{internal}": release for release, internals in _RELEASES.items() for internal in range(internals)
}
_OLDEST = (2, 6)
_TOPIC_IDS_FROM = (2, 8)


def release_of(text: str) -> tuple[int, ...] | None:
    """The release of a version such as 2.8, 2.8.1, 0.10.2.1 or 3.0-IV1; what comes after its second part, or its third where
    it begins with ``0.``, does not count. None where Kafka 3.9 knows no such version."""
    parts = text.split(".")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # as java.lang.String.split: 3.9. has two parts, and is then read whole
    counted = 3 if text.startswith("0.") else 2
    release = _RELEASE_OF.get(".".join(parts[:counted]) if len(parts) > counted else text)
    return None if release is None else tuple(map(int, release.split(".")))


def is_spoken(text: str) -> bool:
    """Whether brokers of this package speak that version of the protocol."""
    release = release_of(text)
    return release is not None and release >= _OLDEST


def lacks_topic_ids(text: str) -> bool:
    """Whether brokers of that version may be in the cluster that know neither topic ids nor what came after them."""
    release = release_of(text)
    return release is not None and release < _TOPIC_IDS_FROM
