"""A blocking face for scripts: the asyncio clients on a loop in a thread of its own, method by method.

    with BlockingConsumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        records = consumer.poll(1000)

Heartbeats go on while the script's own code runs. `BrokerSocket` is a plain socket for those who need nothing else.
"""

from __future__ import annotations

from typing import Any

from coterie.client.blocking.admin import BlockingAdmin
from coterie.client.blocking.consumer import BlockingConsumer
from coterie.client.blocking.producer import BlockingProducer
from coterie.client.blocking.share_consumer import BlockingShareConsumer

__all__ = ["BlockingAdmin", "BlockingConsumer", "BlockingProducer", "BlockingShareConsumer"]


def __getattr__(name: str) -> Any:
    """The asyncio classes are not here: a script that took one for the blocking one would only build coroutines."""
    if name in ("Admin", "Consumer", "Producer", "ShareConsumer"):
        text = f"coterie.client.blocking has Blocking{name}; the asyncio {name} is in coterie.client"
        raise ImportError(text, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
