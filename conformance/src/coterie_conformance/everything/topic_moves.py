"""Moves of random stories about what a topic's settings do to its records, where times lead, topics that are made again, and
how transactions end. The topic is the move's own, "$n{n}"."""

from __future__ import annotations

from coterie.certify.question import Step, Value

PRODUCED = "topic_data.partition_data.records"
PRODUCER = {"@": "id", "of": "producer@init{n}", "or": -1}
_NAME = "$n{n}"
_ID = {"@": "topic id", "of": _NAME}
TXN = {"transactional_id": "$x{n}"}
_LARGE = [["k", "x" * 2000, -1000]]


def created(**settings: str) -> Step:
    """With these settings; ``_`` stands for the dots of their names."""
    configs = [{"name": name.replace("_", "."), "value": value} for name, value in settings.items()]
    return "CreateTopics", {"topics.name": _NAME, "topics.configs": configs}


def produced(*records: Value, acks: int = -1, transactional: bool = False, **parts: Value) -> Step:
    """One batch; ``records`` as in `batches`, two by default."""
    batch: dict[str, Value] = {"records": list(records) or [["k{n}", "v", -1000], [None, "w", -500]]} | parts
    wanted: dict[str, Value] = {"acks": acks, "topic_data.name": _NAME, "topic_data.topic_id": _ID}
    if transactional:
        batch |= {"producer": PRODUCER, "transactional": True}
        wanted |= TXN
    return "Produce", wanted | {PRODUCED: {"@": "records", "batches": [batch]}}


def _at(ms: int) -> Value:
    return ["k", str(-ms), ms]


def _read(offset: int = 0, **parts: Value) -> Step:
    return "Fetch", {"topics.topic": _NAME, "topics.topic_id": _ID, "topics.partitions.fetch_offset": offset} | parts


def _looked_up(time: Value, **parts: Value) -> Step:
    return "ListOffsets", {"topics.name": _NAME, "topics.partitions.timestamp": time} | parts


def _at_time(ms: int) -> Step:
    return _looked_up({"@": "now", "ms": ms})


def _begins_at(offset: int) -> Step:
    return "DeleteRecords", {"topics.name": _NAME, "topics.partitions.offset": offset}


def _deleted() -> Step:
    return "DeleteTopics", {"topic_names": [_NAME], "topics.name": _NAME}


def described() -> Step:
    """The producers of the move's topic."""
    return "DescribeProducers", {"topics.name": _NAME}


INITIALIZED: Step = ("InitProducerId", TXN)
_ADDED: Step = ("AddPartitionsToTxn", TXN | {"topics.name": _NAME, "transactions.topics.name": _NAME})
_COMMITTED: Step = (
    "OffsetCommit",
    {
        "group_id": "$o{n}",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics.name": _NAME,
        "topics.topic_id": _ID,
    },
)
_ALL_OFFSETS: Step = (
    "OffsetFetch",
    {"group_id": "$o{n}", "topics": None, "groups.group_id": "$o{n}", "groups.topics": None},
)
LAST_STABLE = _looked_up(-1, isolation_level=1)
STABLE = _read(isolation_level=1)


def _ended(*, committed: bool, epoch: int = 0) -> Step:
    return "EndTxn", TXN | {"committed": committed, "producer_epoch": epoch}


TOPIC_MOVES: dict[str, tuple[float, list[Step]]] = {
    "append time": (
        1,
        [
            created(message_timestamp_type="LogAppendTime"),
            produced(),
            _looked_up(-3),  # of two batches, one broker may append both within a millisecond
            produced(codec=1),
            _read(),
            _at_time(-60_000),
            _at_time(3_600_000),
        ],
    ),
    **{
        f"stored as {codec}": (
            0.3,
            [created(compression_type=codec), *(produced(codec=n) for n in (0, 1, 3)), _read(), _looked_up(-3)],
        )
        for codec in ("gzip", "snappy", "lz4", "zstd", "uncompressed")
    },
    "small batches": (
        1,
        [created(max_message_bytes="150"), produced(), produced(*_LARGE), produced(*_LARGE, codec=1), _read()],
    ),
    "small records, unfolded": (
        0.5,
        [created(max_decompressed_message_bytes="100"), *(produced(*_LARGE, codec=n) for n in (1, 2, 0, 4)), _read()],
    ),
    "small batches, unfolded": (
        0.5,
        [created(max_message_bytes="150", compression_type="uncompressed"), produced(*_LARGE, codec=1), produced(), _read()],
    ),
    "too few replicas": (
        1,
        [
            created(min_insync_replicas="2"),
            produced(),
            produced(acks=1),
            _looked_up(-1),
            _read(),
            produced(acks=0),
            _read(1),
            _begins_at(-1),
        ],
    ),
    "times refused": (
        1,
        [
            created(message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="3600000"),
            produced(_at(-1000), _at(-3_700_000)),
            produced(_at(3_700_000), _at(-1000), codec=4),
            produced(_at(-1000)),
            _read(),
        ],
    ),
    "times": (
        2,
        [
            created(index_interval_bytes="0"),
            produced(_at(-5000), _at(-9000)),
            produced(_at(-7000)),
            produced(_at(-3000), _at(-1000), _at(-2000), codec=3),
            *(_at_time(ms) for ms in (-9500, -6000, -2500, -1000, 0)),
            _looked_up(-3),
            _begins_at(4),
            *(_at_time(ms) for ms in (-9500, -2500)),
            *(_looked_up(time) for time in (-2, -3, -4)),
            _read(),
            _read(4),
        ],
    ),
    "rolled": (
        1,
        [
            created(segment_ms="1", cleanup_policy="compact,delete"),
            produced(_at(-5000)),
            produced(_at(-3000), _at(-4000)),
            produced(_at(-1000)),
            _read(2),
            _at_time(-4500),
            _begins_at(-1),
            _looked_up(-2),
            produced(_at(-500)),
            _read(4),
        ],
    ),
    "made again": (
        1,
        [
            created(),
            produced(),
            _COMMITTED,
            _deleted(),
            _ALL_OFFSETS,
            _read(),
            created(cleanup_policy="compact"),
            _looked_up(-1),
            _ALL_OFFSETS,
            produced(_at(-1000)),
            _read(),
        ],
    ),
    "named both ways": (
        0.5,
        [
            created(),
            *(
                ("DeleteTopics", {"topic_names": ["$n{n}"] * 2, "topics": elements})
                for elements in (
                    [{"name": None}] * 2,
                    [{"name": None, "topic_id": _ID}, {"name": _NAME}],
                    [{"name": _NAME, "topic_id": _ID}, {"name": _NAME, "topic_id": _ID}, {"name": "$nowhere"}],
                    [{"name": _NAME}, {"name": None, "topic_id": _ID}, {"name": None, "topic_id": _ID}],
                )
            ),
            _read(),
            _deleted(),
        ],
    ),
    "committed and aborted": (
        2,
        [
            created(),
            INITIALIZED,
            *(
                step
                for n, committed in enumerate((True, False))
                for step in (
                    _ADDED,
                    produced(transactional=True, epoch=n, sequence=0),
                    LAST_STABLE,
                    STABLE,
                    _ended(committed=committed, epoch=n),
                    LAST_STABLE,
                    STABLE,
                )
            ),
            described(),
        ],
    ),
    "committed and aborted, one epoch": (
        2,
        [
            created(),
            INITIALIZED,
            _ADDED,
            produced(transactional=True, epoch=0, sequence=0),
            _ended(committed=False),
            _ended(committed=False),
            _ended(committed=True),
            _ADDED,
            produced(transactional=True, epoch=0, sequence=2),
            _ended(committed=True),
            STABLE,
            _read(3, isolation_level=1),
            LAST_STABLE,
            described(),
        ],
    ),
    "fenced": (
        1,
        [
            created(),
            INITIALIZED,
            _ADDED,
            produced(transactional=True, epoch=0, sequence=0),
            INITIALIZED,
            produced(transactional=True, epoch=0, sequence=2),
            _ended(committed=True),
            STABLE,
            described(),
        ],
    ),
    "nothing added": (
        2,
        [
            created(),
            INITIALIZED,
            produced(transactional=True, epoch=0, sequence=0),
            ("TxnOffsetCommit", TXN | {"group_id": "$o{n}", "generation_id_or_member_epoch": -1, "member_id": ""}),
            ("DescribeTransactions", {"transactional_ids": ["$x{n}"]}),
            LAST_STABLE,
            _ended(committed=True),
            STABLE,
            _ALL_OFFSETS,
            produced(transactional=True, epoch=1, sequence=0),
            _ended(committed=False, epoch=1),
            described(),
        ],
    ),
    "marker": (
        0.5,
        [
            created(),
            INITIALIZED,
            _ADDED,
            produced(transactional=True, epoch=0, sequence=0),
            (
                "WriteTxnMarkers",
                {"markers.producer_id": PRODUCER, "markers.topics.name": _NAME, "markers.transaction_result": False},
            ),
            LAST_STABLE,
            STABLE,
            _ended(committed=False),
            described(),
        ],
    ),
}  # fmt: skip
