"""RocketMQ's requests of a client for messages, and how responses are read. Codes are RocketMQ's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.requests import CREATE_TOPIC, PULL, READABLE, SEND, WRITABLE, RemotingCommand, as_fields
from coterie_conformance.rocketmq.frames import MALFORMED, FrameError, read_body

MASTER = 0
MAX_QUEUES = 65_536  # of one topic at one broker; RocketMQ's own default is 16
_SUSPEND, _SUBSCRIPTION = 2, 4  # pull: wait for messages; the subscription is in the request


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic: its readable queues, and its brokers' addresses as HOST:PORT, masters only."""

    queues: tuple[MessageQueue, ...]
    addresses: Mapping[str, str]


def route_of(topic: str, response: RemotingCommand) -> TopicRoute:
    """Raises FrameError."""
    body = read_body(response.body)
    try:
        addresses = {
            str(b["brokerName"]): next(
                str(address) for number, address in b["brokerAddrs"].items() if int(number) == MASTER
            )
            for b in body["brokerDatas"]
            if any(int(number) == MASTER for number in b["brokerAddrs"])
        }
        queues = [
            MessageQueue(topic, str(q["brokerName"]), number)
            for q in body["queueDatas"]
            if int(q["perm"]) & READABLE and str(q["brokerName"]) in addresses
            for number in range(_queue_count(q["readQueueNums"]))
        ]
    except MALFORMED as error:
        raise FrameError("a route cannot be read") from error
    return TopicRoute(tuple(sorted(queues)), addresses)


def _queue_count(number: object) -> int:
    count = int(str(number))
    if count > MAX_QUEUES:
        raise FrameError(f"a route has {count} queues at one broker")
    return count


def consumers_of(response: RemotingCommand) -> tuple[str, ...]:
    """Raises FrameError."""
    try:
        return tuple(str(c) for c in read_body(response.body).get("consumerIdList") or ())
    except MALFORMED as error:
        raise FrameError("a list of consumers cannot be read") from error


def locked_of(response: RemotingCommand) -> set[MessageQueue]:
    """Raises FrameError."""
    try:
        queues = read_body(response.body).get("lockOKMQSet") or ()
        return {MessageQueue(str(q["topic"]), str(q["brokerName"]), int(q["queueId"])) for q in queues}
    except MALFORMED as error:
        raise FrameError("a lock's answer cannot be read") from error


def end_offset(queue: MessageQueue, code: int) -> RemotingCommand:
    """``code``: MAX_OFFSET or MIN_OFFSET."""
    return RemotingCommand(code, as_fields(topic=queue.topic, queueId=queue.queue_id))


def pull(
    group: str, queue: MessageQueue, offset: int, sub_version: int, suspend_ms: int, count: int
) -> RemotingCommand:
    """PULL_MESSAGE: at most ``count`` messages from ``offset`` on. The broker holds the request for ``suspend_ms``
    where there are none; the response commits nothing."""
    return RemotingCommand(
        PULL,
        as_fields(
            consumerGroup=group,
            topic=queue.topic,
            queueId=queue.queue_id,
            queueOffset=offset,
            maxMsgNums=count,
            sysFlag=_SUSPEND | _SUBSCRIPTION,
            commitOffset=0,
            suspendTimeoutMillis=suspend_ms,
            subscription="*",
            subVersion=sub_version,
            expressionType="TAG",
        ),
    )


def send(group: str, queue: MessageQueue, body: bytes, now_ms: int) -> RemotingCommand:
    """SEND_MESSAGE: one message of a producer group; ``now_ms`` is its born timestamp."""
    return RemotingCommand(
        SEND,
        as_fields(
            producerGroup=group,
            topic=queue.topic,
            defaultTopic="TBW102",
            defaultTopicQueueNums=4,
            queueId=queue.queue_id,
            sysFlag=0,
            bornTimestamp=now_ms,
            flag=0,
            properties="",
            reconsumeTimes=0,
            unitMode=False,
            batch=False,
        ),
        body,
    )


def create_topic(topic: str, queues: int) -> RemotingCommand:
    """UPDATE_AND_CREATE_TOPIC at one broker: a topic with so many queues to read and to write."""
    return RemotingCommand(
        CREATE_TOPIC,
        as_fields(
            topic=topic,
            defaultTopic="TBW102",
            readQueueNums=queues,
            writeQueueNums=queues,
            perm=READABLE | WRITABLE,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order=False,
        ),
    )
