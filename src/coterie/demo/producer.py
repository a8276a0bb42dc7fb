"""The demo's producer, a process of its own: paced, with its progress on stdout, one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

from coterie.client import Producer
from coterie.demo.rows import InputError, Reject, read_rows

CHUNK = 1000


async def produce(address: str, topic: str, path: Path | None, key: str | None, rejects: Path, seconds: float) -> None:
    """Spreads the rows over ``seconds``; rejected lines go to ``rejects``."""
    rows = list(read_rows(path, key))
    total = len(rows)
    sent = bad = 0
    settings = {
        "bootstrap.servers": address,
        "client.id": "demo-producer",
        "linger.ms": 20,
        "batch.size": 131_072,
        "compression.type": "lz4",
    }
    _report(total=total, sent=0, rejected=0)
    started = time.monotonic()
    with rejects.open("w", encoding="utf-8", errors="surrogateescape") as kept:
        async with Producer(settings) as producer:
            for number, row in enumerate(rows, 1):
                if isinstance(row, Reject):
                    bad += 1
                    kept.write(f"{row.line}: {row.reason}: {row.text}\n")
                    _report(reject=f"line {row.line}: {row.reason}")
                else:
                    await producer.send(topic, row.value(), None if row.key is None else row.key.encode())
                    sent += 1
                if number % CHUNK == 0:
                    _report(total=total, sent=sent, rejected=bad)
                    ahead = started + seconds * number / total - time.monotonic()
                    await asyncio.sleep(max(ahead, 0))
            await producer.flush()
    _report(total=total, sent=sent, rejected=bad, done=True)


def _report(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    """The demo's producer, a process of its own: exits with 1 where the input cannot be read."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("rejects", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--key")
    args = parser.parse_args()
    try:
        asyncio.run(produce(args.address, args.topic, args.input, args.key, args.rejects, args.seconds))
    except InputError as error:
        _report(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
