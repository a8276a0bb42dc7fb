"""One seed, one story of a share group: members acquire records, are slow, acknowledge this way or that and crash; brokers die;
then all is mended, and each record must have ended once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from coterie.broker.broker import Broker
from coterie.client import Admin
from coterie.client.connection.connection import Connection
from coterie.coordinator.share_state.state import SharePartitionKey
from coterie.log.partition_log import PartitionLog
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.testing.simulated import SimulatedWorld, WorldBroker, simulate
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from coterie.wire.messages.settings.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from coterie_conformance.share_stories.raw_member import initialize_states
from coterie_conformance.share_stories.share_checker import AckOutcome, ShareDeliveries
from coterie_conformance.share_stories.story_member import (
    GROUP,
    LETTER_PARTITIONS,
    LETTERS,
    REQUEST_S,
    TOPIC,
    SharePlan,
    ShareStoryMember,
    ShareWork,
    draw_share_plan,
)
from coterie_conformance.stories.story import StoryReport, naming_seed, without_log_lines

GROUP_RESOURCE, SET = 32, 0
REST_S = 400.0
LOOK_S = 0.1
ADMIN_PAUSE_S = 1.0


class ShareStory:
    """The story of one plan in a world."""

    def __init__(self, world: SimulatedWorld, plan: SharePlan) -> None:
        self.world, self.plan = world, plan
        self.rng = random.Random(f"share faults {plan.seed}")
        self.broker: WorldBroker = world.broker(plan.settings(), brokers=plan.brokers)
        servers = [
            (host, int(port)) for host, _, port in (s.rpartition(":") for s in self.broker.bootstrap_servers.split(","))
        ]
        self.history = ShareDeliveries(plan.delivery_limit)
        self.work = ShareWork(plan, servers, self.history)
        if plan.dead_letters:
            self.work.letters = self._letters
        self.produced = dict.fromkeys(range(plan.partitions), 0)
        self.crashes = self.broker_crashes = 0
        self._down: dict[int, float] = {}

    def run(self, length_s: float) -> StoryReport:
        """Faults strike for so long; raises AssertionError where a rule is broken."""
        self._begin()
        ends_s = self.world.now_s + length_s
        while self.world.now_s < ends_s:
            self.world.advance(LOOK_S)
            self._fault()
            self._look()
        self._mend()
        self._produce(everything=True)
        self.work.calm = True
        self.world.until(self._is_done, "every record is accepted", REST_S)
        self.history.check_none_lost({(TOPIC, index): count for index, count in self.produced.items()})
        if self.plan.dead_letters:
            self.world.until(lambda: not self.history.missing_letters(self._letters()), "every letter is there", REST_S)
            self.history.check_no_letter_of_accepted(self._letters())
        deliveries = sum(len(record.deliveries) for record in self.history.records.values())
        accepted = sum(record.ended == ["accepted"] for record in self.history.records.values())
        return StoryReport(
            self.plan.seed,
            self.plan.brokers,
            round(self.world.now_s, 3),
            self.world.loop.turns,
            accepted,
            deliveries,
            transactions=0,
            faults=self.crashes + self.broker_crashes,
            broker_crashes=self.broker_crashes,
            trace=self.world.trace,
        )

    def _begin(self) -> None:
        self.broker.create_topic(TOPIC, self.plan.partitions)
        host, port = self.work.servers[0]

        async def begin() -> bytes:
            connection = await Connection.connect(host, port, "story", REQUEST_S)
            request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
            topic_id = (await connection.request(request, MetadataResponse, REQUEST_S)).topics[0].topic_id
            connection.close()
            for _ in range(30):  # until `__share_group_state` has its leaders
                await self._find_coordinator(topic_id)
                for address in self.work.servers:
                    connection = await Connection.connect(*address, "story", REQUEST_S)
                    codes = await initialize_states(connection, GROUP, topic_id, self.plan.partitions)
                    connection.close()
                    done.update(index for index, code in enumerate(codes) if not code)
                    if len(done) == self.plan.partitions:
                        await self._configure()
                        return topic_id
                await asyncio.sleep(ADMIN_PAUSE_S)
            raise AssertionError("the states are not initialized")

        done = set[int]()
        self.work.topic_id = self.world.run(begin())
        for number in range(self.plan.members):
            self._start(f"member-{number}")

    async def _configure(self) -> None:
        """The group's dead letters have a topic. A broker alone creates it for the first of them; several cannot while one of
        them is down, and would give the letter up."""
        if not self.plan.dead_letters:
            return
        async with Admin({"bootstrap.servers": self.broker.bootstrap_servers}) as admin:
            if self.plan.brokers > 1:
                configs = {"errors.deadletterqueue.group.enable": "true"}
                await admin.create_topic(LETTERS, LETTER_PARTITIONS, configs, replication_factor=self.plan.brokers)
            controller = (await admin.describe_cluster()).controller
        assert controller is not None
        changes = [AlterableConfig("errors.deadletterqueue.topic.name", SET, LETTERS)]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, GROUP, changes)], False)
        connection = await Connection.connect(controller.host, controller.port, "story", REQUEST_S)
        response = await connection.request(request, IncrementalAlterConfigsResponse, REQUEST_S)
        connection.close()
        assert not response.responses[0].error_code, response

    async def _find_coordinator(self, topic_id: bytes) -> None:
        """Which creates `__share_group_state`."""
        connection = await Connection.connect(*self.work.servers[0], "story", REQUEST_S)
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SharePartitionKey(GROUP, topic_id, 0).text()])
        await connection.request(request, FindCoordinatorResponse, REQUEST_S)
        connection.close()

    def _start(self, name: str) -> None:
        life = self.work.restarts.setdefault(name, 0)
        self.world.spawn(name, ShareStoryMember(self.work, f"{name}-{life}").live)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self.rng.random() < 0.3:
            self._produce()
        if self.rng.random() < 0.02:
            name = f"member-{self.rng.randrange(self.plan.members)}"
            self.world.processes[name].kill()
            self._note_sent(name)
            self.work.restarts[name] += 1
            self.crashes += 1
            self._start(name)
        for broker_id, until_s in list(self._down.items()):
            if self.world.now_s >= until_s:
                del self._down[broker_id]
                self.broker.restart(broker_id)
        if self.rng.random() < 0.01 and not self._down:
            broker_id = self.rng.randint(1, self.plan.brokers)
            self.broker.kill(broker_id)
            self.broker_crashes += 1
            self._down[broker_id] = self.world.now_s + self.rng.uniform(0.5, 5)

    def _note_sent(self, name: str) -> None:
        """What a killed member has sent may be carried out: no `finally` of it has run (seed 7300003 of three brokers)."""
        if name in self.work.sending:
            member, acks = self.work.sending.pop(name)
            for index, batches in acks.items():
                member.note(index, batches, AckOutcome.UNKNOWN)

    def _mend(self) -> None:
        for broker_id in self._down:
            self.broker.restart(broker_id)
        self._down.clear()

    def _produce(self, *, everything: bool = False) -> None:
        left = self.plan.records - sum(self.produced.values())
        if self._down or not left:
            return
        count = left if everything else min(left, self.rng.randint(1, 8))
        index = self.rng.randrange(self.plan.partitions)
        self.broker.produce(TOPIC, *[b"x" * 10] * count, partition=index)
        self.produced[index] += count

    # -- checks -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """The start offsets that the leaders have; a broker that leads no longer may not know it yet."""
        for broker_id, broker in self._live():
            for index, offset in broker.share.start_offsets(GROUP).items():
                if self._leader(index) == broker_id:
                    self.history.start_offset((TOPIC, index), offset)

    def _letters(self) -> set[tuple[tuple[str, int], int]]:
        """The records that have a letter, by the leaders of the dead letter topic."""
        letters = set()
        for broker_id, broker in self._live():
            topic = broker.topics.by_name.get(LETTERS)
            for partition in topic.partitions if topic else ():
                if partition.is_stored and self._leader(partition.index, LETTERS) == broker_id:
                    letters |= set(_letters_in(partition.log))
        return letters

    def _live(self) -> list[tuple[int, Broker]]:
        if self.plan.brokers > 1:
            return [(live.broker_id, live.broker) for live in self.broker.cluster.live()]
        return [] if self._down else [(1, self.broker.broker)]

    def _leader(self, index: int, topic: str = TOPIC) -> int:
        if self.plan.brokers == 1:
            return 1
        state = self.broker.cluster.state(topic, index)
        return -1 if state is None else state.leader

    def _is_done(self) -> bool:
        for index, count in self.produced.items():
            for offset in range(count):
                record = self.history.records.get(((TOPIC, index), offset))
                if record is None:
                    return False
                spent = max(count for count, _ in record.deliveries) >= self.plan.delivery_limit
                if not (record.ended or record.may_be_ended or spent):
                    return False
        return True


def _letters_in(log: PartitionLog) -> Iterator[tuple[tuple[str, int], int]]:
    data = log.read(log.log_start_offset, 2**30, at_least_one=True) if log.end_offset > log.log_start_offset else b""
    for position, header in batches(data):
        for record in decode_records(data, position, header):
            context = {name: (value or b"").decode() for name, value in record.headers}
            of = context["__dlq.errors.topic"], int(context["__dlq.errors.partition"])
            yield of, int(context["__dlq.errors.offset"])


def run_share_seed(seed: int, minutes: float = 0.5, *, brokers: int | None = None) -> StoryReport:
    """Runs one seed for so many virtual minutes of faults. Raises FuzzFailure with the seed where a rule is broken."""
    plan = draw_share_plan(seed, brokers or random.Random(f"brokers {seed}").choice((1, 3)))
    with naming_seed(seed), without_log_lines(), simulate(seed) as world:
        return ShareStory(world, plan).run(minutes * 60)
