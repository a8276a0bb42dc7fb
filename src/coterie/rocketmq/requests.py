"""RocketMQ's requests that a consumer and a producer need, and how their answers are read. Codes are RocketMQ's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.remoting import MALFORMED, ONEWAY_FLAG, FrameError, RemotingCommand, read_body

SEND, PULL, QUERY_OFFSET, UPDATE_OFFSET, CREATE_TOPIC = 10, 11, 14, 15, 17
MAX_OFFSET, MIN_OFFSET = 30, 31
HEARTBEAT, UNREGISTER, CONSUMER_LIST, CONSUMERS_CHANGED = 34, 35, 38, 40
LOCK, UNLOCK, ROUTE = 41, 42, 105

SUCCESS, TOPIC_NOT_EXIST, PULL_NOT_FOUND, PULL_RETRY, PULL_OFFSET_MOVED, QUERY_NOT_FOUND = 0, 17, 19, 20, 21, 22

READABLE, WRITABLE = 4, 2
MASTER = 0
MAX_QUEUES = 65_536  # of one topic at one broker; RocketMQ's own default is 16
_SUSPEND, _SUBSCRIPTION = 2, 4  # pull: wait for messages; the subscription is in the request


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic: its readable queues, and its brokers' addresses as HOST:PORT, masters only."""

    queues: tuple[MessageQueue, ...]
    addresses: Mapping[str, str]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _fields(**values: object) -> dict[str, str]:
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in values.items()}


def route(topic: str) -> RemotingCommand:
    """GET_ROUTEINFO_BY_TOPIC to a name server."""
    return RemotingCommand(ROUTE, _fields(topic=topic, acceptStandardJsonOnly=True))


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


def heartbeat(client_id: str, group: str, topics: Iterable[str], sub_version: int) -> RemotingCommand:
    """HEART_BEAT to every broker: registers a clustering push consumer that subscribes to whole topics. ``sub_version``
    rises with each change of the subscription."""
    subscriptions = [
        {
            "topic": topic,
            "subString": "*",
            "tagsSet": [],
            "codeSet": [],
            "subVersion": sub_version,
            "expressionType": "TAG",
            "classFilterMode": False,
        }
        for topic in topics
    ]
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    return RemotingCommand(
        HEARTBEAT, {}, _json({"clientID": client_id, "producerDataSet": [], "consumerDataSet": [consumer]})
    )


def unregister(client_id: str, group: str) -> RemotingCommand:
    """UNREGISTER_CLIENT: the brokers forget the consumer at once and notify the others of its group."""
    return RemotingCommand(UNREGISTER, _fields(clientID=client_id, consumerGroup=group))


def consumer_list(group: str) -> RemotingCommand:
    """GET_CONSUMER_LIST_BY_GROUP: the client ids of a group, as one broker knows them."""
    return RemotingCommand(CONSUMER_LIST, _fields(consumerGroup=group))


def consumers_of(response: RemotingCommand) -> tuple[str, ...]:
    """Raises FrameError."""
    try:
        return tuple(str(c) for c in read_body(response.body).get("consumerIdList") or ())
    except MALFORMED as error:
        raise FrameError("a list of consumers cannot be read") from error


def consumers_changed(group: str) -> RemotingCommand:
    """A broker's notice that the group's consumers have changed."""
    return RemotingCommand(CONSUMERS_CHANGED, _fields(consumerGroup=group), flag=ONEWAY_FLAG)


def _queues(queues: Iterable[MessageQueue]) -> list[dict[str, object]]:
    return [{"topic": q.topic, "brokerName": q.broker_name, "queueId": q.queue_id} for q in queues]


def lock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> RemotingCommand:
    """LOCK_BATCH_MQ: the response has the queues that are now locked for this client."""
    body = {"consumerGroup": group, "clientId": client_id, "mqSet": _queues(queues), "onlyThisBroker": False}
    return RemotingCommand(LOCK, {}, _json(body))


def locked_of(response: RemotingCommand) -> set[MessageQueue]:
    """Raises FrameError."""
    try:
        queues = read_body(response.body).get("lockOKMQSet") or ()
        return {MessageQueue(str(q["topic"]), str(q["brokerName"]), int(q["queueId"])) for q in queues}
    except MALFORMED as error:
        raise FrameError("a lock's answer cannot be read") from error


def unlock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> RemotingCommand:
    """UNLOCK_BATCH_MQ, one way."""
    body = {"consumerGroup": group, "clientId": client_id, "mqSet": _queues(queues), "onlyThisBroker": False}
    return RemotingCommand(UNLOCK, {}, _json(body), flag=ONEWAY_FLAG)


def query_offset(group: str, queue: MessageQueue) -> RemotingCommand:
    """QUERY_CONSUMER_OFFSET: the group's committed offset of a queue; QUERY_NOT_FOUND without one."""
    return RemotingCommand(QUERY_OFFSET, _fields(consumerGroup=group, topic=queue.topic, queueId=queue.queue_id))


def update_offset(group: str, queue: MessageQueue, offset: int) -> RemotingCommand:
    """UPDATE_CONSUMER_OFFSET, one way: commits the offset of the next message."""
    fields = _fields(consumerGroup=group, topic=queue.topic, queueId=queue.queue_id, commitOffset=offset)
    return RemotingCommand(UPDATE_OFFSET, fields, flag=ONEWAY_FLAG)


def end_offset(queue: MessageQueue, code: int) -> RemotingCommand:
    """``code``: MAX_OFFSET or MIN_OFFSET."""
    return RemotingCommand(code, _fields(topic=queue.topic, queueId=queue.queue_id))


def pull(
    group: str, queue: MessageQueue, offset: int, sub_version: int, suspend_ms: int, count: int
) -> RemotingCommand:
    """PULL_MESSAGE: at most ``count`` messages from ``offset`` on. The broker holds the request for ``suspend_ms``
    where there are none; the response commits nothing."""
    return RemotingCommand(
        PULL,
        _fields(
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
        _fields(
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
        _fields(
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
