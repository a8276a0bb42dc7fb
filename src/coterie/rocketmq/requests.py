"""RocketMQ's remoting frames (length, header length and kind, a JSON header, a body), and in them the requests of a consumer
about its group. Codes are RocketMQ's."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from coterie.rocketmq.allocation import MessageQueue

RESPONSE_FLAG, ONEWAY_FLAG = 1, 2
_VERSION = 399  # of the client, as a number; brokers only compare it with older ones
_KINDS = struct.Struct(">ii")
SEND, PULL, QUERY_OFFSET, UPDATE_OFFSET, CREATE_TOPIC = 10, 11, 14, 15, 17
MAX_OFFSET, MIN_OFFSET = 30, 31
HEARTBEAT, UNREGISTER, CONSUMER_LIST, CONSUMERS_CHANGED = 34, 35, 38, 40
LOCK, UNLOCK, ROUTE = 41, 42, 105
SUCCESS, TOPIC_NOT_EXIST, PULL_NOT_FOUND, PULL_RETRY, PULL_OFFSET_MOVED, QUERY_NOT_FOUND = 0, 17, 19, 20, 21, 22
READABLE, WRITABLE = 4, 2


@dataclass(slots=True)
class RemotingCommand:
    """A request or, with the flag's first bit, a response; ``code`` is a request's or a response's. ``opaque`` ties them."""

    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None


def encode(command: RemotingCommand) -> bytes:
    """The whole frame."""
    header = json.dumps(
        {
            "code": command.code,
            "language": "PYTHON",
            "version": _VERSION,
            "opaque": command.opaque,
            "flag": command.flag,
            "remark": command.remark,
            "extFields": command.fields,
            "serializeTypeCurrentRPC": "JSON",
        },
        separators=(",", ":"),
    ).encode()
    return _KINDS.pack(4 + len(header) + len(command.body), len(header)) + header + command.body


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def as_fields(**values: object) -> dict[str, str]:
    """A header's fields: texts, truth values in lower case."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in values.items()}


def route(topic: str) -> RemotingCommand:
    """GET_ROUTEINFO_BY_TOPIC to a name server."""
    return RemotingCommand(ROUTE, as_fields(topic=topic, acceptStandardJsonOnly=True))


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
    return RemotingCommand(UNREGISTER, as_fields(clientID=client_id, consumerGroup=group))


def consumer_list(group: str) -> RemotingCommand:
    """GET_CONSUMER_LIST_BY_GROUP: the client ids of a group, as one broker knows them."""
    return RemotingCommand(CONSUMER_LIST, as_fields(consumerGroup=group))


def consumers_changed(group: str) -> RemotingCommand:
    """A broker's notice that the group's consumers have changed."""
    return RemotingCommand(CONSUMERS_CHANGED, as_fields(consumerGroup=group), flag=ONEWAY_FLAG)


def _queues(queues: Iterable[MessageQueue]) -> list[dict[str, object]]:
    return [{"topic": q.topic, "brokerName": q.broker_name, "queueId": q.queue_id} for q in queues]


def lock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> RemotingCommand:
    """LOCK_BATCH_MQ: the response has the queues that are now locked for this client."""
    body = {"consumerGroup": group, "clientId": client_id, "mqSet": _queues(queues), "onlyThisBroker": False}
    return RemotingCommand(LOCK, {}, _json(body))


def unlock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> RemotingCommand:
    """UNLOCK_BATCH_MQ, one way."""
    body = {"consumerGroup": group, "clientId": client_id, "mqSet": _queues(queues), "onlyThisBroker": False}
    return RemotingCommand(UNLOCK, {}, _json(body), flag=ONEWAY_FLAG)


def query_offset(group: str, queue: MessageQueue) -> RemotingCommand:
    """QUERY_CONSUMER_OFFSET: the group's committed offset of a queue; QUERY_NOT_FOUND without one."""
    return RemotingCommand(QUERY_OFFSET, as_fields(consumerGroup=group, topic=queue.topic, queueId=queue.queue_id))


def update_offset(group: str, queue: MessageQueue, offset: int) -> RemotingCommand:
    """UPDATE_CONSUMER_OFFSET, one way: commits the offset of the next message."""
    fields = as_fields(consumerGroup=group, topic=queue.topic, queueId=queue.queue_id, commitOffset=offset)
    return RemotingCommand(UPDATE_OFFSET, fields, flag=ONEWAY_FLAG)
