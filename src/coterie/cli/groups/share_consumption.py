"""`coterie consume --share`: records of a share group, each acknowledged once it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import click

from coterie.console.terminal import write_line

ACKNOWLEDGE = ("accept", "release", "reject")
JOIN_NOTICE_S = 10.0  # without an assignment


async def read_shared(
    stop: asyncio.Event,
    settings: dict[str, Any],
    topic: str,
    acknowledge: str,
    limit: int | None,
    timeout_ms: int | None,
    write: Callable[[Any], None],
) -> None:
    """Records until the limit, the time without one or the end; the ones that are not written are released."""
    from coterie.client import AcknowledgeType, ShareConsumer

    kind = AcknowledgeType[acknowledge.upper()]
    shown, last = 0, time.monotonic()
    async with ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"}) as consumer:
        consumer.subscribe([topic])
        notice_s: float | None = last + JOIN_NOTICE_S
        while not stop.is_set() and (limit is None or shown < limit):
            polled = await consumer.poll(200)
            records = [record for partition in polled.values() for record in partition]
            for record in records:
                if limit is None or shown < limit:
                    write(record)
                    shown += 1
                    consumer.acknowledge(record, kind)
                else:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE)
            last = time.monotonic() if records else last
            if consumer.assignment():
                notice_s = None
            elif notice_s is not None and time.monotonic() > notice_s:
                notice_s = None
                write_line(f"waiting for partitions of {topic} from share group {settings['group.id']}", err=True)
            if timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
                break
        for where, error in (await consumer.commit()).items():
            if error is not None:
                write_line(f"records of {where.topic}-{where.partition} will be delivered again: {error}", err=True)


def require_alone(context: dict[str, object]) -> None:
    """Raises UsageError for options of `coterie consume` that a share group has no use for."""
    given = [name for name, value in context.items() if value]
    if given:
        raise click.UsageError(f"{given[0]} does not go with --share.")
