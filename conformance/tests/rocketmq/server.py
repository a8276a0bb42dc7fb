"""A RocketMQ name server and broker in one, in memory, speaking the remoting protocol: enough for our client.

The judge is the real one (`./run conformance --part rocketmq`); this one runs everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import time
import zlib
from collections.abc import Callable

from coterie.rocketmq import requests as r
from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.queue_locks import QueueLocks
from coterie.rocketmq.requests import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, encode
from coterie_conformance.rocketmq.frames import decode

BROKER = "broker-0"


def stored(message: bytes, topic: str, queue_id: int, offset: int, *, compressed: bool = False) -> bytes:
    """A message as a broker writes it."""
    body = zlib.compress(message) if compressed else message
    flags = 1 if compressed else 0
    rest = struct.pack(">iIiiiqqiq", 0, 0xDAA320A7, 0, queue_id, 0, offset, 0, flags, 1_700_000_000_000)
    rest += bytes(8) + struct.pack(">q", 0) + bytes(8) + struct.pack(">iq", 0, 0)
    rest += struct.pack(">i", len(body)) + body + bytes([len(topic)]) + topic.encode()
    rest += struct.pack(">h", 7) + b"KEY\x01val"
    return struct.pack(">i", len(rest)) + rest[4:]


class RocketMQServer:
    """``silent``: codes that are not answered."""

    def __init__(self, queues: int) -> None:
        self.count = queues
        self.messages: dict[tuple[str, int], list[bytes]] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.groups: dict[str, dict[str, asyncio.StreamWriter]] = {}
        self.locks = QueueLocks()
        self.silent: set[int] = set()
        self.requested: list[int] = []
        self._handlers: dict[int, Callable[[RemotingCommand, asyncio.StreamWriter], RemotingCommand]] = {
            r.ROUTE: self._route,
            r.HEARTBEAT: self._heartbeat,
            r.UNREGISTER: self._unregister,
            r.CONSUMER_LIST: self._consumers,
            r.LOCK: self._lock,
            r.UNLOCK: self._unlock,
            r.QUERY_OFFSET: self._query,
            r.UPDATE_OFFSET: self._update,
            r.MIN_OFFSET: lambda command, _: RemotingCommand(0, {"offset": "0"}),
            r.MAX_OFFSET: self._end,
            r.PULL: self._pull,
            r.SEND: self._send,
            r.CREATE_TOPIC: lambda command, _: RemotingCommand(0),
        }

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.close()
        for clients in self.groups.values():
            for writer in clients.values():
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                command = decode(await reader.readexactly(size))
                self.requested.append(command.code)
                if command.code in self.silent:
                    continue
                response = self._handlers[command.code](command, writer)
                if command.code == r.PULL and response.code == r.PULL_NOT_FOUND:
                    await asyncio.sleep(0.01)
                if not command.flag & ONEWAY_FLAG:
                    response.opaque, response.flag = command.opaque, RESPONSE_FLAG
                    writer.write(encode(response))
        writer.close()
        for group, clients in self.groups.items():
            for client_id in [c for c, w in clients.items() if w is writer]:
                del clients[client_id]
                self._tell(group)

    def _tell(self, group: str) -> None:
        for writer in self.groups[group].values():
            writer.write(encode(r.consumers_changed(group)))

    def _route(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        if command.fields["topic"] == "nowhere":
            return RemotingCommand(r.TOPIC_NOT_EXIST, remark="no route info of this topic: nowhere")
        n = self.count
        text = (  # with the unquoted number that fastjson writes
            f'{{"brokerDatas":[{{"brokerAddrs":{{0:"{self.address}"}},"brokerName":"{BROKER}","cluster":"c"}}],'
            f'"queueDatas":[{{"brokerName":"{BROKER}","perm":6,"readQueueNums":{n},"writeQueueNums":{n}}}]}}'
        )
        return RemotingCommand(0, body=text.encode())

    def _heartbeat(self, command: RemotingCommand, writer: asyncio.StreamWriter) -> RemotingCommand:
        content = json.loads(command.body)
        for consumer in content["consumerDataSet"]:
            known = self.groups.setdefault(consumer["groupName"], {})
            new = known.get(content["clientID"]) is not writer
            known[content["clientID"]] = writer
            if new:
                self._tell(consumer["groupName"])
        return RemotingCommand(0)

    def _unregister(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        group = command.fields["consumerGroup"]
        self.groups[group].pop(command.fields["clientID"], None)
        self._tell(group)
        return RemotingCommand(0)

    def _consumers(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        ids = list(self.groups.get(command.fields["consumerGroup"], {}))
        return RemotingCommand(0, body=json.dumps({"consumerIdList": ids}).encode())

    def _lock(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        content = json.loads(command.body)
        queues = [MessageQueue(q["topic"], q["brokerName"], q["queueId"]) for q in content["mqSet"]]
        now_ms = int(time.time() * 1000)
        locked = self.locks.lock(content["consumerGroup"], content["clientId"], queues, now_ms)
        matches = [{"topic": q.topic, "brokerName": q.broker_name, "queueId": q.queue_id} for q in locked]
        return RemotingCommand(0, body=json.dumps({"lockOKMQSet": matches}).encode())

    def _unlock(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        content = json.loads(command.body)
        queues = [MessageQueue(q["topic"], q["brokerName"], q["queueId"]) for q in content["mqSet"]]
        self.locks.unlock(content["consumerGroup"], content["clientId"], queues)
        return RemotingCommand(0)

    @staticmethod
    def _where(command: RemotingCommand) -> tuple[str, int]:
        return command.fields["topic"], int(command.fields["queueId"])

    def _query(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        offset = self.offsets.get((command.fields["consumerGroup"], *self._where(command)))
        return RemotingCommand(r.QUERY_NOT_FOUND) if offset is None else RemotingCommand(0, {"offset": str(offset)})

    def _update(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        key = (command.fields["consumerGroup"], *self._where(command))
        self.offsets[key] = int(command.fields["commitOffset"])
        return RemotingCommand(0)

    def _end(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        return RemotingCommand(0, {"offset": str(len(self.messages.get(self._where(command), [])))})

    def _pull(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        topic, queue_id = self._where(command)
        offset = int(command.fields["queueOffset"])
        matches = self.messages.get((topic, queue_id), [])[offset : offset + int(command.fields["maxMsgNums"])]
        if not matches:
            return RemotingCommand(r.PULL_NOT_FOUND, {"nextBeginOffset": str(offset)})
        body = b"".join(stored(m, topic, queue_id, offset + n, compressed=bool(n % 2)) for n, m in enumerate(matches))
        return RemotingCommand(0, {"nextBeginOffset": str(offset + len(matches))}, body)

    def _send(self, command: RemotingCommand, _: asyncio.StreamWriter) -> RemotingCommand:
        kept = self.messages.setdefault(self._where(command), [])
        kept.append(command.body)
        return RemotingCommand(
            0, {"queueOffset": str(len(kept) - 1), "msgId": "x", "queueId": command.fields["queueId"]}
        )
