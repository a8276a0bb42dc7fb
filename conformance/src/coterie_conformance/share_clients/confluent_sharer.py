"""confluent-kafka's share consumer, which does what its standard input says, line by line: `… HOST:PORT GROUP TOPIC MODE`."""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer


def main(address: str, group: str, topic: str, mode: str) -> None:
    """Until `close`."""
    consumer = ShareConsumer({"bootstrap.servers": address, "group.id": group, "share.acknowledgement.mode": mode})
    consumer.subscribe([topic])
    for line in sys.stdin:
        words = line.split()
        try:
            result = run(consumer, topic, words)
        except KafkaException as error:
            result = {"error": error.args[0].name()}
        print(json.dumps(result), flush=True)
        if words[0] == "close":
            return


def run(consumer: Any, topic: str, words: list[str]) -> dict[str, Any]:
    """The result of one line."""
    match words[0]:
        case "poll":
            polled = [m for m in consumer.poll(int(words[1]) / 1000) if m.error() is None]
            return {"records": [[m.partition(), m.offset(), m.delivery_count(), m.value().decode()] for m in polled]}
        case "acknowledge":
            consumer.acknowledge_offset(topic, int(words[1]), int(words[2]), AcknowledgeType[words[3]])
            return {}
        case "commit":
            return {"failed": [str(error) for error in consumer.commit_sync(30).values() if error is not None]}
    consumer.close()
    return {}


if __name__ == "__main__":
    main(*sys.argv[1:])
