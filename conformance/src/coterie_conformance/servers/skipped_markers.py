"""Transactions that Apache Kafka completed without markers in the logs: a defect of its coordinator.

A broker that was killed leads its partitions in the metadata of its last run, and its coordinator loads. If the new
registration takes the leadership away meanwhile, `TransactionMarkerChannelManager` takes the partitions of a prepared
transaction for deleted, skips their markers, and appends the completed state. The records stay open: those behind them are
never read, or the producer's next marker decides about both. Seen in 4.3.0 and 4.4.0, on machines with other work.
"""

from __future__ import annotations

import re

from coterie.text.quantity import quantity

OPTION = "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction.TransactionMarkerChannelManager=info"
_SKIPPED = re.compile(
    r"Couldn't find leader endpoint for partitions .* transaction markers for (\S+), these partitions"
)
_NOT_COMPLETED = re.compile(r"No longer the coordinator for transactionalId: (\S+) while trying to append")


def skipped_markers(log: str) -> int:
    """Of how many transactions a broker's ``log``, written with `OPTION`, says so; without those whose completed state it did
    not append, since the next coordinator sends their markers."""
    count, skipped = 0, set[str]()
    for line in log.splitlines():
        if match := _SKIPPED.search(line):
            skipped.add(match[1])
            count += 1
        elif (match := _NOT_COMPLETED.search(line)) and match[1] in skipped:
            skipped.remove(match[1])
            count -= 1
    return count


def explanation(count: int) -> str:
    """A line about that many transactions; empty for none."""
    return (
        f"Kafka's coordinator completed {quantity(count, 'transaction')} without markers after a kill" if count else ""
    )
