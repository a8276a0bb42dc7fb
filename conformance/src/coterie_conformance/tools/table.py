"""The commands of part `tools`: Apache Kafka's command-line tools, their commands in the order they are run, and which of
coterie's outputs may differ from Apache Kafka's.

A command is written as it would be typed, without the server's address. The topics `records` (3 partitions, 10 records
each) and `empty`, the groups `active` (one member, all read) and `former` (no member, offsets committed) and the
transactional ids `open` (one record in `ledger`) and `done` exist on both sides before the first command.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from enum import Flag, auto

from coterie_conformance.tools.our_commands import is_older

VERSIONS = ("3.9.1", "4.3.0", "4.4.0")
NEW = ("4.3.0", "4.4.0")
OLD = ("3.9.1",)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's main class, what it was before the version in which it moved, and the option that names the server: before the
    arguments, or after them where the tool takes it only with its subcommand."""

    main: str
    main_before: str = ""
    moved_in: str = "4"
    server_option: str = "--bootstrap-server"
    server_last: bool = False

    def main_class(self, version: str) -> str:
        return self.main_before if self.main_before and is_older(version, self.moved_in) else self.main


class Compare(Flag):
    """The comparison of two outputs after the masks: line by line, unless a flag changes it.
    SHARED_KEYS leaves out the lines whose first word (up to =) only one side prints."""

    LINES = 0
    ANY_ORDER = auto()
    NUMBERS_MASKED = auto()
    SHARED_KEYS = auto()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Lines that are not compared, of either side: the matches of ``pattern`` in the output of commands whose name
    matches ``commands``. Both are regular expressions."""

    commands: str
    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Why coterie's output may differ from these versions', and a regular expression that it must match all the same."""

    reason: str
    ours: str
    versions: tuple[str, ...] = VERSIONS


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """``line`` is the command line: ``{folder}`` is the folder of FILES, ``{data}`` the broker's log folder. ``when``
    distinguishes a repeated command from its first run. A command that is still running after ``limit_s`` is ended;
    both sides have to come to that."""

    line: str
    when: str = ""
    stdin: str = ""
    versions: tuple[str, ...] = VERSIONS
    compare: Compare = Compare.LINES
    limit_s: float = 30.0
    accepted: Accepted | None = None

    @property
    def name(self) -> str:
        return f"{self.line} ({self.when})" if self.when else self.line

    def of(self, version: str) -> ToolCommand:
        """The command as it is compared with that version."""
        return self if self.accepted is None or version in self.accepted.versions else replace(self, accepted=None)

    @property
    def tool(self) -> str:
        return shlex.split(self.line)[0]

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.line)[1:]


_TOOLS = "org.apache.kafka.tools"
TOOLS = {
    "kafka-acls": Tool(f"{_TOOLS}.AclCommand", "kafka.admin.AclCommand"),
    "kafka-broker-api-versions": Tool(f"{_TOOLS}.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"),
    "kafka-client-metrics": Tool(f"{_TOOLS}.ClientMetricsCommand"),
    "kafka-cluster": Tool(f"{_TOOLS}.ClusterTool", server_last=True),
    "kafka-configs": Tool(f"{_TOOLS}.ConfigCommand", "kafka.admin.ConfigCommand", "4.4"),
    "kafka-console-consumer": Tool(f"{_TOOLS}.consumer.ConsoleConsumer"),
    "kafka-console-producer": Tool(f"{_TOOLS}.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-console-share-consumer": Tool(f"{_TOOLS}.consumer.ConsoleShareConsumer"),
    "kafka-consumer-groups": Tool(f"{_TOOLS}.consumer.group.ConsumerGroupCommand"),
    "kafka-consumer-perf-test": Tool(f"{_TOOLS}.ConsumerPerformance"),
    "kafka-delegation-tokens": Tool(f"{_TOOLS}.DelegationTokenCommand"),
    "kafka-delete-records": Tool(f"{_TOOLS}.DeleteRecordsCommand"),
    "kafka-dump-log": Tool(f"{_TOOLS}.DumpLogSegments", "kafka.tools.DumpLogSegments", server_option=""),
    "kafka-e2e-latency": Tool(f"{_TOOLS}.EndToEndLatency", server_option=""),
    "kafka-features": Tool(f"{_TOOLS}.FeatureCommand"),
    "kafka-get-offsets": Tool(f"{_TOOLS}.GetOffsetShell"),
    "kafka-groups": Tool(f"{_TOOLS}.GroupsCommand"),
    "kafka-leader-election": Tool(f"{_TOOLS}.LeaderElectionCommand"),
    "kafka-log-dirs": Tool(f"{_TOOLS}.LogDirsCommand"),
    "kafka-metadata-quorum": Tool(f"{_TOOLS}.MetadataQuorumCommand"),
    "kafka-producer-perf-test": Tool(f"{_TOOLS}.ProducerPerformance", server_option=""),
    "kafka-reassign-partitions": Tool(f"{_TOOLS}.reassign.ReassignPartitionsCommand"),
    "kafka-replica-verification": Tool(f"{_TOOLS}.ReplicaVerificationTool", server_option="--broker-list"),
    "kafka-share-consumer-perf-test": Tool(f"{_TOOLS}.ShareConsumerPerformance"),
    "kafka-share-groups": Tool(f"{_TOOLS}.consumer.group.ShareGroupCommand"),
    "kafka-streams-application-reset": Tool(f"{_TOOLS}.StreamsResetter"),
    "kafka-streams-groups": Tool(f"{_TOOLS}.streams.StreamsGroupCommand"),
    "kafka-topics": Tool(f"{_TOOLS}.TopicCommand"),
    "kafka-transactions": Tool(f"{_TOOLS}.TransactionsCommand"),
}

_OF_39 = "the default, or the setting itself, changed between Kafka 3.9 and 4.3; coterie has 3.9's"
_LEADING_BROKER = "of three brokers of ours, a follower that met a partition before its leader did fetches again soon"
_FIRST_RECORD = "Apache Kafka 4 writes a record for a group that was only just created, coterie does not"
_BROKER_ALL = "kafka-configs --describe --entity-type brokers --entity-name 1 --all"
LEFT_OUT = (
    LeftOut(_BROKER_ALL, r"^replica\.fetch\.backoff\.ms=", _LEADING_BROKER),
    LeftOut(
        _BROKER_ALL,
        r"^(broker\.id|listeners|log\.dirs|process\.roles|controller\..*)=",
        "coterie gets its address and its folder on the command line, and has no controller",
    ),
    LeftOut(_BROKER_ALL, r"^zookeeper\.", "Apache Kafka 3.9 runs without ZooKeeper here; coterie has its own timeouts"),
    LeftOut(
        _BROKER_ALL,
        r"^(max\.connections|node\.id|offsets\.topic\.replication\.factor)=",
        "coterie's defaults are those of one process, the only broker",
    ),
    LeftOut(
        _BROKER_ALL,
        r"^(group\.(consumer\.assignors|coordinator\.(append\.linger\.ms|rebalance\.protocols|threads)"
        r"|share\.partition\.max\.record\.locks)|log\.message\.timestamp\.after\.max\.ms|metric\.reporters"
        r"|num\.recovery\.threads\.per\.data\.dir|remote\.log\.manager\..*thread\.pool\.size"
        r"|sasl\.oauthbearer\.expected\.audience)=",
        _OF_39,
    ),
    LeftOut(
        "kafka-configs --describe --entity-type topics --entity-name orders --all",
        r"^message\.(downconversion\.enable|format\.version|timestamp\.(after|difference)\.max\.ms)=",
        _OF_39,
    ),
    LeftOut("kafka-get-offsets", r"^__consumer_offsets:", _FIRST_RECORD),
    LeftOut("kafka-console-consumer .*OffsetsMessageFormatter", r"^Processed a total of", _FIRST_RECORD),
    LeftOut("kafka-dump-log .*--offsets-decoder", r'"protocolType":"","generation', _FIRST_RECORD),
    LeftOut(
        "kafka-dump-log .*--offsets-decoder", r"^baseOffset:", "which records share a batch is the broker's affair"
    ),
)

_THREE = "each partition of ours has three replicas, the one of Kafka's is at its minimum"
_UNFIT = "an assignment to one broker does not fit the three replicas that the topic has"
_NO_FIFTH = "the partition was not added, since its assignment did not fit the three replicas of the topic"
# Name of a command -> why three brokers of ours print something else than one of Kafka's, beside what `MASKS_OF_SEVERAL`
# masks.
OF_SEVERAL: dict[str, str] = {
    "kafka-topics --describe --at-min-isr-partitions": _THREE,
    "kafka-topics --describe --under-min-isr-partitions": _THREE,
    "kafka-topics --alter --topic orders --partitions 5 --replica-assignment 1,1,1,1,1": _UNFIT,
    "kafka-get-offsets": _NO_FIFTH,
    "kafka-get-offsets --exclude-internal-topics --topic '.*'": _NO_FIFTH,
    "kafka-log-dirs --describe --topic-list records,empty": "each of the brokers has a directory",
    "kafka-reassign-partitions --topics-to-move-json-file {folder}/topics.json --broker-list 1 --generate": _UNFIT,
}

# Files in {folder} that commands read.
FILES = {
    "topics.json": '{"version": 1, "topics": [{"topic": "orders"}]}',
    "reassign.json": '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}',
    "reassign-unknown.json": '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [9]}]}',
    "reassign-missing.json": '{"version": 1, "partitions": [{"topic": "nowhere", "partition": 0, "replicas": [1]}]}',
    "elect.json": '{"partitions": [{"topic": "orders", "partition": 0}]}',
    "elect-missing.json": '{"partitions": [{"topic": "nowhere", "partition": 0}]}',
    "delete.json": '{"version": 1, "partitions": [{"topic": "records", "partition": 0, "offset": 3}]}',
    "delete-beyond.json": '{"version": 1, "partitions": [{"topic": "records", "partition": 1, "offset": 99}]}',
    "delete-missing.json": '{"version": 1, "partitions": [{"topic": "nowhere", "partition": 0, "offset": 1}]}',
    "offsets.csv": "records,0,4\nrecords,1,2\n",
    "client.properties": "request.timeout.ms=10000\n",
    "topic.properties": "retention.ms=7200000\nmax.message.bytes=65536\n",
}
