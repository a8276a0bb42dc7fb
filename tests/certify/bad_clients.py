"""Consumers and producers with a planted defect each: `python bad_clients.py HOST:PORT GROUP TOPIC DEFECT`."""

from __future__ import annotations

import os
import sys
import time

from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.client.errors import KafkaError
from coterie.client.types import TopicPartition


class BadConsumer:
    """Right, but for its defect."""

    def __init__(self, address: str, group: str, topic: str, defect: str) -> None:
        self.topic, self.defect = topic, defect
        settings = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"}
        self.consumer = BlockingConsumer(settings | {"enable.auto.commit": False})
        self.positioned: set[TopicPartition] = set()
        self.rounds = 0

    def run(self) -> None:
        self.consumer.subscribe([self.topic])
        while True:
            records = self.consumer.poll(200)
            owned = self.consumer.assignment()
            if self.defect == "from the beginning" and owned - self.positioned:
                self.consumer.seek_to_beginning(owned - self.positioned)
                self.positioned |= owned
                continue
            if self.defect == "stops reading" and self.rounds == 3:
                time.sleep(3_600)
            if self.defect == "ignores the group" and owned:
                self.consumer.unsubscribe()
                self.consumer.assign([(self.topic, 0), (self.topic, 1)])
                self.defect = "assigned"
                continue
            self.positioned = self.positioned or owned
            if records:
                self.rounds += 1
                self.process([r.value or b"" for batch in records.values() for r in batch])

    def process(self, values: list[bytes]) -> None:
        if self.defect == "commits first":
            self.commit()
        if self.defect == "drops one" and self.rounds == 3:
            values = values[1:]
        if self.defect == "gives up" and self.rounds == 3:
            sys.exit("it has had enough")
        for value in values:
            print(value.decode().strip(), flush=True)
        if self.defect == "commits back" and self.rounds % 3 == 0:
            self.consumer.commit({(self.topic, 0): 1})
        elif self.defect != "never commits":
            self.commit()

    def commit(self) -> None:
        try:
            self.consumer.commit()
        except KafkaError as error:
            print(error, file=sys.stderr)


class BadProducer:
    """Sends each line of its input, and prints it."""

    def __init__(self, address: str, topic: str, defect: str) -> None:
        self.topic, self.defect = topic, defect
        self.producer = BlockingProducer({"bootstrap.servers": address, "enable.idempotence": True})
        self.late: str | None = None

    def run(self) -> None:
        for number, line in enumerate(sys.stdin):
            value = line.strip()
            if self.defect == "loses" and number % 10 == 9:
                print(value, flush=True)
                continue
            if self.defect == "swallows" and number % 10 == 9:
                continue
            if self.defect == "swaps" and number % 10 == 8:
                self.late = value
                continue
            self.send(value)
            if self.defect == "sends again" and number % 10 == 9:
                self.send(value)
            if self.late is not None:
                late, self.late = self.late, None
                self.send(late)

    def send(self, value: str) -> None:
        self.producer.send_and_wait(self.topic, value.encode(), partition=0)
        print(value, flush=True)


def main(address: str, group: str, topic: str, defect: str) -> None:
    if os.environ["COTERIE_BOOTSTRAP_SERVERS"] != address:
        sys.exit("the environment has another address than the command")
    if defect.startswith("producer: "):
        BadProducer(address, topic, defect.removeprefix("producer: ")).run()
    else:
        BadConsumer(address, group, topic, defect).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
