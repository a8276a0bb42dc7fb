"""librdkafka's mock cluster (`test.mock.num.brokers`) in a process of its own: prints its address, ends with its input."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Until standard input is closed."""
    producer = Producer({"test.mock.num.brokers": 1})
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
