"""What a broker answers to seeded stories and requests, and what members of a group come to, as one line of a hash each;
`tests/test_edition.py` runs it on both editions and compares.

    python -m tests.edition_answers [NAME...]   the edition first, then NAME, the seed, how many answers, their SHA-256
"""

from __future__ import annotations

import hashlib
import logging
import random
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import coterie.coordinator.shard as a_compiled_module
from coterie.broker.connections.server import AcceptedConnection
from coterie.broker.handlers import HANDLERS
from coterie.broker.node import BrokerNode
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import finish
from coterie.broker.requests.unserved import UnservedRequests
from coterie.broker.settings import BrokerSettings
from coterie.laboratory.cluster.seeds import WITH_GROUPS_FROM, WITH_WHOLE_CLIENTS_FROM, run_seed_of_clusters
from coterie.laboratory.consumer_group_fuzz import run_consumer_seed
from coterie.laboratory.fuzz import run_seed
from coterie.laboratory.node.broker import Answered, LaboratoryBroker
from coterie.laboratory.node.scheduler import VirtualClock, WorldScheduler
from coterie.laboratory.node.seeds import (
    COPYING_FROM,
    SERVER_ASSIGNED_COPYING_FROM,
    SERVER_ASSIGNED_FROM,
    run_clients_seed,
)
from coterie.laboratory.node.story import run_records_seed
from coterie.laboratory.produce_fuzz import run_produce_seed
from coterie.laboratory.transaction_fuzz import run_transaction_seed
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from coterie.records.encoding import encode_batch
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message, Struct
from coterie.wire.framing import encode_request
from coterie_conformance.fuzzing.messages import random_struct
from tests.fake_transport import FakeTransport

SEEDS = range(3)
STORY_MINUTES = 1.0
REQUESTS = 3_000
GROUP_APIS = (0, 1, 8, 9, 11, 12, 13, 14, 22, 24, 25, 26, 28, 68)  # asked as often as all others
BATCH = encode_batch([(1_700_000_000_000, b"k", b"v" * 20, ())])
DOMAINS: dict[str, tuple[Any, ...]] = {
    "group_id": ("g", "g", "h"),
    "topic": ("t", "t", "u", "none"),
    "partition": (0, 0, 1, 7),
    "partition_index": (0, 0, 1, 7),
    "session_timeout_ms": (10_000, 30_000),
    "rebalance_timeout_ms": (10_000, 30_000),
    "protocol_type": ("consumer",),
    "group_instance_id": (None, None, "one"),
    "transactional_id": (None, "x"),
    "producer_id": (0, 1, -1),
    "producer_epoch": (0, 1, -1),
    "acks": (1, -1),
    "records": (BATCH, BATCH, b""),
    "max_wait_ms": (0,),
    "isolation_level": (0, 1),
    "fetch_offset": (0, 1, 99),
    "session_id": (0,),
    "session_epoch": (-1,),
}


class Recording:
    """A hash of all that was answered."""

    def __init__(self) -> None:
        self.hash, self.answers = hashlib.sha256(), 0

    def add(self, answer: bytes) -> None:
        self.answers += 1
        self.hash.update(len(answer).to_bytes(4, "big") + answer)


@contextmanager
def recorded_stories(recording: Recording) -> Iterator[None]:
    """Every request to a broker of the laboratory, and every response."""
    handle = LaboratoryBroker.handle

    def recorded(self: LaboratoryBroker, request: Message, version: int, client_id: str, answered: Answered) -> None:
        def answer(response: Message | None) -> None:
            recording.add(b"closed" if response is None else response.encode(version))
            answered(response)

        recording.add(request.encode(version))
        handle(self, request, version, client_id, answer)

    LaboratoryBroker.handle = recorded  # type: ignore[method-assign]
    try:
        yield
    finally:
        LaboratoryBroker.handle = handle  # type: ignore[method-assign]


class FramesBroker(BrokerNode):
    """A broker in virtual time with what its connections use of it (`server.Owner`)."""

    def __init__(self, world: World) -> None:
        settings = BrokerSettings({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"})
        # Which real time does not touch.
        super().__init__(settings, VirtualClock(world), random.Random(world.random.random()))
        self.handlers, self.unserved = HANDLERS, UnservedRequests()
        self.request_memory = RequestMemory(settings.current.queued_max_request_bytes)
        self.holding: set[AcceptedConnection] = set()
        self.max_request_bytes = settings.current.socket_request_max_bytes
        self.max_elements = settings.current.coterie_request_max_elements
        self.loop: Any = WorldScheduler(world, lambda: None)
        self.open(MemoryFileSystem(), self.loop, lambda files, synced: synced(None), lambda error: None)
        for topic, count in (("t", 2), ("u", 1)):
            finish(self.topics.creating(topic, count, {}))
        self.load_transactions()

    def connected(self, connection: AcceptedConnection) -> bool:
        return True

    def disconnected(self, connection: AcceptedConnection) -> None:
        self.holding.discard(connection)


def sensible(shape: Struct, version: int, rng: random.Random, known: dict[str, tuple[Any, ...]]) -> None:
    """Puts values that mean something to this broker into most fields of a random request."""
    for spec in shape.fields:
        value = getattr(shape, spec.name)
        if isinstance(value, Struct):
            sensible(value, version, rng, known)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Struct):
                    sensible(element, version, rng, known)
        elif rng.random() < 0.95:
            choices = known.get(spec.name) or DOMAINS.get(spec.name)
            if choices is None and spec.name == "name" and isinstance(value, str):
                choices = ("range",) if "Protocol" in type(shape).__name__ else DOMAINS["topic"]
            chosen = value if choices is None else rng.choice(choices)
            if chosen is not None or version in spec.nullable:
                setattr(shape, spec.name, chosen)


def known_members(broker: FramesBroker, rng: random.Random) -> dict[str, tuple[Any, ...]]:
    """A member of a group with its generation or epoch, mostly; or one that does not exist."""
    group = broker.groups.group(rng.choice("ggh"))
    if group is None or not group.members or rng.random() < 0.1:
        return {"member_id": ("", "nobody"), "generation_id": (-1, 1), "generation_id_or_member_epoch": (-1, 1)}
    number = group.generation
    numbers = (number, number, number, 0)
    names = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
    return {
        "group_id": (group.group_id,),
        "member_id": (rng.choice(list(group.members)),),
        **dict.fromkeys(names, numbers),
    }


def answer_frames(seed: int, recording: Recording) -> None:
    """Random requests of every API and version over one connection after another, in pieces, some of them damaged."""
    world, ids = World(seed), random.Random(seed)
    uuid.uuid4 = lambda: uuid.UUID(int=ids.getrandbits(128), version=4)  # a topic that is only checked has an id too
    broker = FramesBroker(world)
    rng, others = random.Random(seed), sorted(set(APIS) - set(GROUP_APIS))
    transport, connection = _connect(broker)
    for number in range(REQUESTS):
        api = APIS[rng.choice(GROUP_APIS if rng.random() < 0.5 else others)]
        version = rng.randint(api.advertised.first, api.advertised.last)
        request = random_struct(api.request, version, rng)
        known = known_members(broker, rng)
        sensible(request, version, rng, known)
        frame = bytearray(encode_request(number, "client", request, version))
        if rng.random() < 0.03:
            frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
        cut = rng.randrange(len(frame))
        for piece in (bytes(frame[:cut]), bytes(frame[cut:])):
            broker.turns.spent_s = 0.0  # the share of real time of a turn of the loop
            connection.data_received(piece)
        world.run_until(world.now_ms + rng.choice((0, 0, 1, 50, 5_000)))
        recording.add(b"".join(transport.written))
        transport.written.clear()
        if transport.closed:
            recording.add(b"closed")
            connection.connection_lost(None)
            transport, connection = _connect(broker)


def _connect(broker: FramesBroker) -> tuple[FakeTransport, AcceptedConnection]:
    transport = FakeTransport()
    connection = AcceptedConnection(broker)
    connection.connection_made(transport)
    return transport, connection


def main() -> None:
    logging.disable(logging.CRITICAL)
    print("interpreted" if str(a_compiled_module.__file__).endswith(".py") else "compiled")
    stories: dict[str, Callable[[int], object]] = {
        "records": lambda seed: run_records_seed(seed, STORY_MINUTES),
        "members": lambda seed: run_seed(seed, STORY_MINUTES),
        "consumer-groups": lambda seed: run_consumer_seed(seed, STORY_MINUTES),
        "producers": lambda seed: run_transaction_seed(seed, STORY_MINUTES),
        "senders": lambda seed: run_produce_seed(seed, STORY_MINUTES),
    }
    for first in (0, COPYING_FROM, SERVER_ASSIGNED_FROM, SERVER_ASSIGNED_COPYING_FROM):
        stories[f"clients-{first}"] = lambda seed, first=first: run_clients_seed(first + seed, STORY_MINUTES)
    for first in (0, WITH_GROUPS_FROM, WITH_WHOLE_CLIENTS_FROM + 1):  # three that follow each other tell three stories
        stories[f"clusters-{first}"] = lambda seed, first=first: run_seed_of_clusters(first + seed, STORY_MINUTES)
    for seed in SEEDS:
        for name in sys.argv[1:] or ["frames", *stories]:
            recording = Recording()
            if name == "frames":
                answer_frames(seed, recording)
            else:
                with recorded_stories(recording):
                    recording.add(repr(stories[name](seed)).encode())
            print(name, seed, recording.answers, recording.hash.hexdigest())


if __name__ == "__main__":
    main()
