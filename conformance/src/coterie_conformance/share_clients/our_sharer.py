"""Our share consumer, which does what its standard input says, line by line: `… HOST:PORT GROUP TOPIC MODE`."""

from __future__ import annotations

import json
import sys
from typing import Any

from coterie.client import AcknowledgeType, KafkaError
from coterie.client.blocking import BlockingShareConsumer

NOW_MS = 200


def main(address: str, group: str, topic: str, mode: str) -> None:
    """Until `close`."""
    settings = {"bootstrap.servers": address, "group.id": group, "share.acknowledgement.mode": mode}
    consumer: BlockingShareConsumer = BlockingShareConsumer(settings)
    consumer.subscribe([topic])
    for line in sys.stdin:
        words = line.split()
        try:
            result = run(consumer, topic, words)
        except (KafkaError, RuntimeError, LookupError) as error:
            result = {"error": type(error).__name__}
        print(json.dumps(result), flush=True)
        if words[0] == "close":
            return


def run(consumer: BlockingShareConsumer, topic: str, words: list[str]) -> dict[str, Any]:
    """The result of one line."""
    match words[0]:
        case "poll":
            polled = [r for records in consumer.poll(int(words[1])).values() for r in records]
            return {"records": [[r.partition, r.offset, r.delivery_count, (r.value or b"").decode()] for r in polled]}
        case "acknowledge":
            consumer.acknowledge((topic, int(words[1]), int(words[2])), AcknowledgeType[words[3]])
            return {}
        case "renew":
            consumer.acknowledge((topic, int(words[1]), int(words[2])), AcknowledgeType.RENEW)
            result = commit(consumer)
            consumer.poll(NOW_MS)  # the renewed record comes back
            return result
        case "commit":
            return commit(consumer)
    consumer.close()
    return {}


def commit(consumer: BlockingShareConsumer) -> dict[str, Any]:
    """The errors of a commit, by their names."""
    return {"failed": [str(error) for error in consumer.commit().values() if error is not None]}


if __name__ == "__main__":
    main(*sys.argv[1:])
