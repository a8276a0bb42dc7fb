"""A follower's append: batches as their leader sent them, with its offsets and epochs (Kafka's UnifiedLog.appendAsFollower)."""

from __future__ import annotations

from coterie.log.partition_log import PartitionLog
from coterie.log.truncation import start_anew_at
from coterie.records.batch import MAGIC, BatchError, BatchHeader, batches, check_crc
from coterie.wire.errors import ErrorCode, Refusal


def append_as_follower(log: PartitionLog, data: bytes, now_ms: int) -> int:
    """Appends the whole batches of ``data``, one after another; a batch cut short at the end is left out. Offsets may have
    gaps, which compaction leaves. An empty log begins again with a first batch that begins earlier and holds its start: the
    leader's log starts within that batch. Producers are not checked: the leader has. Returns the number of batches. Raises
    Refusal CORRUPT_MESSAGE, with nothing appended, or OSError, with some of them appended."""
    whole = _checked(log, data)
    if whole and whole[0][1].base_offset < log.end_offset:
        start_anew_at(log, whole[0][1].base_offset)
    try:
        for _, header in whole:
            if header.leader_epoch > log.epochs.cache.latest:
                log.epochs.assign(header.leader_epoch, header.base_offset)
        log.epochs.write()
        for position, header in whole:
            batch = data[position : position + header.size]
            log.write(batch, header, now_ms)
            if header.producer_id >= 0:
                log.remember(header, batch if header.is_control else b"")
    except OSError:
        log.epochs.cut(log.end_offset)
        log.epoch_due = True
        raise
    return len(whole)


def _checked(log: PartitionLog, data: bytes) -> list[tuple[int, BatchHeader]]:
    whole: list[tuple[int, BatchHeader]] = []
    next_offset = log.end_offset
    is_empty = log.log_start_offset == next_offset
    try:
        for position, header in batches(data):
            if header.magic != MAGIC:
                raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a batch of format {header.magic}")
            is_within = not whole and is_empty and header.last_offset >= next_offset
            if (header.base_offset < next_offset and not is_within) or header.last_offset_delta < 0:
                problem = f"offsets {header.base_offset} to {header.last_offset} where the log ends at {next_offset}"
                raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a batch with {problem}")
            check_crc(data, position, header)
            whole.append((position, header))
            next_offset = header.last_offset + 1
    except BatchError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"the leader sent a damaged batch: {error}") from error
    return whole
