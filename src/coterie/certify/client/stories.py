"""The stories of a consumer and of a producer: rows of a name, what happens, and its steps."""

from __future__ import annotations

from dataclasses import replace

from coterie.certify.client.story import PRODUCER, ClientStory

_PROCESSES = (
    ClientStory("quiet", "nothing happens", ("read 100",)),
    ClientStory("three at once", "three processes start together", ("read 200",), processes=3, partitions=3),
    ClientStory(
        "second joins", "a second process joins, and leaves", ("start 1", "read 100", "stop 1", "bury", "read 100")
    ),
    ClientStory(
        "killed beside another",
        "one of two processes is killed",
        ("kill 0", "bury", "read 100"),
        processes=2,
    ),
    ClientStory(
        "killed and started", "the only process is killed, and started again", ("kill 0", "start 0", "bury", "read 100")
    ),
    ClientStory(
        "killed three times",
        "the only process is killed three times, at any moment",
        (
            "kill 0",
            "start 0",
            "bury",
            "read 30",
            "kill 0",
            "start 0",
            "bury",
            "read 17",
            "kill 0",
            "start 0",
            "bury",
            "read 100",
        ),
    ),
    ClientStory(
        "stopped and started",
        "the only process is stopped, and started again",
        ("stop 0", "start 0", "bury", "read 100"),
    ),
    ClientStory(
        "rolling restart",
        "two processes are stopped and started in turn",
        ("stop 0", "start 0", "bury", "read 60", "stop 1", "start 1", "bury", "read 60"),
        processes=2,
    ),
    ClientStory(
        "short freeze",
        "a process stands still for 2 s, within its session",
        ("freeze 0", "wait 2", "thaw 0", "read 100"),
    ),
    ClientStory(
        "fenced",
        "one of two processes stands still beyond its session, the other goes on, and the first comes back",
        ("freeze 0", "bury", "read 100", "thaw 0", "read 300", "wait 6", "read 100"),
        processes=2,
    ),
    ClientStory(
        "alone beyond its session",
        "the only process stands still beyond its session",
        ("freeze 0", "bury", "thaw 0", "read 100"),
    ),
    ClientStory(
        "killed while it joins",
        "a process is killed in the rebalance that it began",
        ("start 1", "joined 2", "kill 1", "bury", "read 100"),
    ),
    ClientStory(
        "killed in a silent topic",
        "a process is killed when all is processed",
        ("silence", "wait 6", "kill 0", "start 0", "bury", "speak", "read 100"),
    ),
)

_COORDINATOR = (
    ClientStory("coordinator moves", "the group has another coordinator", ("move", "read 200")),
    ClientStory(
        "coordinator moves thrice",
        "the group's coordinator moves three times",
        ("move", "read 60", "move", "read 60", "move", "read 100"),
    ),
    ClientStory(
        "coordinator moves in a rebalance",
        "the coordinator moves while a second process joins",
        ("start 1", "move", "read 200"),
    ),
    ClientStory(
        "heartbeat to the wrong broker",
        "a heartbeat meets another coordinator",
        ("fail Heartbeat NOT_COORDINATOR 2", "read 100"),
    ),
    ClientStory(
        "heartbeat of an unknown member",
        "the coordinator has forgotten the member",
        ("fail Heartbeat UNKNOWN_MEMBER_ID 1", "bury", "read 100"),
    ),
    ClientStory(
        "heartbeat of another generation",
        "the member's generation is over",
        ("fail Heartbeat ILLEGAL_GENERATION 1", "read 100"),
    ),
    ClientStory("expired", "every member is removed without a word", ("expire", "read 200")),
    ClientStory(
        "expired thrice",
        "every member is removed three times",
        ("expire", "read 60", "expire", "read 60", "expire", "read 100"),
    ),
    ClientStory(
        "no coordinator",
        "no coordinator is available for a while",
        ("fail FindCoordinator COORDINATOR_NOT_AVAILABLE 5", "start 1", "move", "read 200"),
    ),
    ClientStory(
        "member id unknown at the join",
        "JoinGroup is answered with UNKNOWN_MEMBER_ID",
        ("fail JoinGroup UNKNOWN_MEMBER_ID 1", "start 1", "read 200"),
    ),
    ClientStory(
        "join while the coordinator loads",
        "JoinGroup meets a coordinator that loads",
        ("fail JoinGroup COORDINATOR_LOAD_IN_PROGRESS 3", "start 1", "read 200"),
    ),
    ClientStory(
        "rebalance again at the sync",
        "SyncGroup is answered with REBALANCE_IN_PROGRESS",
        ("fail SyncGroup REBALANCE_IN_PROGRESS 2", "start 1", "read 200"),
    ),
    ClientStory(
        "sync to the wrong broker",
        "SyncGroup is answered with NOT_COORDINATOR",
        ("fail SyncGroup NOT_COORDINATOR 2", "start 1", "read 200"),
    ),
    ClientStory("slow sync", "the assignment comes 3 s late", ("delay SyncGroup 3000 2", "start 1", "read 300")),
    ClientStory(
        "join response lost",
        "the response to a JoinGroup is lost, and the member id in it with its session",
        ("lose JoinGroup", "start 1", "forget", "read 200"),
    ),
    ClientStory("sync response lost", "the response to a SyncGroup is lost", ("lose SyncGroup", "start 1", "read 200")),
    ClientStory("join cut", "the connection of a JoinGroup closes", ("cut JoinGroup 2", "start 1", "read 200")),
    ClientStory(
        "consumer heartbeat of an unknown member",
        "the coordinator has forgotten the member (KIP-848)",
        ("fail ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID 1", "read 200"),
    ),
    ClientStory(
        "consumer heartbeat fenced",
        "the member's epoch is fenced (KIP-848)",
        ("fail ConsumerGroupHeartbeat FENCED_MEMBER_EPOCH 1", "read 200"),
    ),
)

_OFFSETS = (
    ClientStory(
        "commit while the coordinator loads",
        "commits meet a coordinator that loads",
        ("fail OffsetCommit COORDINATOR_LOAD_IN_PROGRESS 3", "read 200"),
    ),
    ClientStory(
        "commit to the wrong broker",
        "commits are answered with NOT_COORDINATOR",
        ("fail OffsetCommit NOT_COORDINATOR 3", "read 200"),
    ),
    ClientStory(
        "commit in a rebalance",
        "a commit is answered with REBALANCE_IN_PROGRESS",
        ("fail OffsetCommit REBALANCE_IN_PROGRESS 1", "start 1", "read 200"),
    ),
    ClientStory(
        "commit of another generation",
        "a commit is answered with ILLEGAL_GENERATION",
        ("fail OffsetCommit ILLEGAL_GENERATION 1", "expire", "read 200"),
    ),
    ClientStory(
        "commit of an unknown member",
        "a commit is answered with UNKNOWN_MEMBER_ID",
        ("fail OffsetCommit UNKNOWN_MEMBER_ID 1", "expire", "read 200"),
    ),
    ClientStory(
        "commit response lost", "a commit is carried out, and its response is lost", ("lose OffsetCommit", "read 200")
    ),
    ClientStory(
        "commit cut", "a commit is not carried out, and its connection closes", ("cut OffsetCommit 2", "read 200")
    ),
    ClientStory("slow commit", "a commit takes 3 s", ("delay OffsetCommit 3000 1", "read 200")),
    ClientStory(
        "unstable offsets",
        "the committed offsets wait for a transaction",
        ("fail OffsetFetch UNSTABLE_OFFSET_COMMIT 3", "kill 0", "start 0", "bury", "read 100"),
    ),
    ClientStory(
        "offsets while the coordinator loads",
        "the committed offsets are read of a coordinator that loads",
        ("fail OffsetFetch COORDINATOR_LOAD_IN_PROGRESS 3", "kill 0", "start 0", "bury", "read 100"),
    ),
    ClientStory(
        "offsets from the wrong broker",
        "OffsetFetch is answered with NOT_COORDINATOR",
        ("fail OffsetFetch NOT_COORDINATOR 2", "kill 0", "start 0", "bury", "read 100"),
    ),
    ClientStory(
        "offsets lost",
        "the response with the committed offsets is lost",
        ("lose OffsetFetch", "kill 0", "start 0", "bury", "read 100"),
    ),
)

_LOGS = (
    ClientStory("connections drop", "every connection closes", ("drop", "read 200")),
    ClientStory(
        "connections drop again and again",
        "every connection closes, five times",
        ("drop", "wait 0.4", "drop", "wait 0.4", "drop", "wait 0.4", "drop", "wait 0.4", "drop", "read 200"),
    ),
    ClientStory("fetch cut", "the connections of fetches close", ("cut Fetch 3", "read 200")),
    ClientStory(
        "fetch from the wrong broker",
        "fetches are answered with NOT_LEADER_OR_FOLLOWER",
        ("fail Fetch NOT_LEADER_OR_FOLLOWER 3", "read 200"),
    ),
    ClientStory("slow fetch", "fetches take 2 s", ("delay Fetch 2000 2", "read 200")),
    ClientStory(
        "the log is cut",
        "the records that a process would read next are deleted while it stands still",
        ("freeze 0", "bury", "trim", "thaw 0", "read 100"),
    ),
    ClientStory(
        "the log is cut between two processes",
        "the records at the committed offset are deleted while nobody reads",
        ("kill 0", "bury", "wait 1", "trim", "start 0", "read 100"),
    ),
    ClientStory(
        "more partitions", "the topic grows while nobody reads", ("stop 0", "grow 4", "wait 1", "start 0", "read 200")
    ),
    ClientStory(
        "transactions",
        "records of transactions, committed and aborted, with their markers",
        (
            "transaction commit",
            "read 60",
            "transaction abort",
            "read 60",
            "transaction commit",
            "read 60",
            "silence",
            "transaction commit",
        ),
    ),
    ClientStory("a large record", "a record is larger than what a fetch requests", ("large", "read 200")),
)

_THE_LEADER_DIES = ClientStory(
    "the leader dies",
    "the broker that leads a partition is killed, and comes back",
    ("crash leader", "wait 2", "revive", "read 100"),
    brokers=3,
)

_CLUSTER = (
    ClientStory(
        "leaders move", "other brokers lead the partitions", ("elect", "read 100", "elect", "read 100"), brokers=3
    ),
    _THE_LEADER_DIES,
    ClientStory(
        "the coordinator dies",
        "the broker that coordinates the group is killed, and comes back",
        ("crash coordinator", "wait 2", "revive", "read 100"),
        brokers=3,
    ),
    ClientStory(
        "the coordinator stands still",
        "the broker that coordinates the group stands still for 3 s",
        ("pause coordinator", "wait 3", "resume", "read 100"),
        brokers=3,
    ),
    ClientStory(
        "the leader dies in a rebalance",
        "a leader is killed while a second process joins",
        ("start 1", "crash leader", "wait 2", "revive", "read 100"),
        brokers=3,
    ),
)

_PROTOCOLS = (
    ClientStory(
        "another client joins",
        "a consumer of another library joins the group, and leaves",
        ("companion classic", "read 200", "dismiss", "read 100"),
    ),
    ClientStory(
        "a consumer of KIP-848 joins",
        "a consumer of the new protocol joins the group, and leaves",
        ("companion consumer", "read 200", "dismiss", "read 100"),
    ),
    ClientStory(
        "a killed one is followed by another client",
        "the process is killed, and another library goes on, until it is back",
        ("kill 0", "bury", "companion classic", "read 100", "start 0", "read 100", "dismiss", "read 100"),
    ),
)

CONSUMER_STORIES = (*_PROCESSES, *_COORDINATOR, *_OFFSETS, *_LOGS, *_CLUSTER, *_PROTOCOLS)


_OF_PRODUCERS = (
    ClientStory("quiet", "nothing happens", ("read 100",)),
    ClientStory("connections drop", "every connection closes", ("drop", "read 100")),
    ClientStory(
        "connections drop again and again",
        "every connection closes, four times",
        ("drop", "wait 0.4", "drop", "wait 0.4", "drop", "wait 0.4", "drop", "read 100"),
    ),
    ClientStory("response lost", "a batch is written, and its response is lost", ("lose Produce", "read 100")),
    ClientStory(
        "request cut", "the connections of Produce close before it is carried out", ("cut Produce 2", "read 100")
    ),
    ClientStory("slow broker", "the broker takes 2 s", ("delay Produce 2000 2", "read 100")),
    ClientStory(
        "no leader", "the broker does not lead the partition", ("fail Produce NOT_LEADER_OR_FOLLOWER 3", "read 100")
    ),
    ClientStory(
        "too few replicas",
        "the batch is refused for want of replicas",
        ("fail Produce NOT_ENOUGH_REPLICAS 3", "read 100"),
    ),
    ClientStory(
        "timed out", "the broker reports a time-out of its own", ("fail Produce REQUEST_TIMED_OUT 2", "read 100")
    ),
    ClientStory(
        "storage error", "the broker's disk refuses the batch", ("fail Produce KAFKA_STORAGE_ERROR 2", "read 100")
    ),
    ClientStory(
        "producer id late",
        "the broker that gives producer ids still loads",
        ("fail InitProducerId COORDINATOR_LOAD_IN_PROGRESS 2", "stop 0", "start 0", "read 100"),
    ),
    ClientStory("killed", "the process is killed and started again", ("kill 0", "start 0", "read 100")),
    ClientStory("frozen", "the process stands still for 3 s", ("freeze 0", "wait 3", "thaw 0", "read 100")),
    ClientStory(
        "leaders move", "other brokers lead the partitions", ("elect", "read 60", "elect", "read 60"), brokers=3
    ),
    _THE_LEADER_DIES,
    ClientStory(
        "the leader stands still",
        "the broker that leads a partition stands still for 3 s",
        ("pause leader", "wait 3", "resume", "read 100"),
        brokers=3,
    ),
)

PRODUCER_STORIES = tuple(replace(story, role=PRODUCER) for story in _OF_PRODUCERS)
