"""The stories of a producer: rows of a name, what happens, and its steps."""

from __future__ import annotations

from dataclasses import replace

from coterie.certify.client.story import PRODUCER, ClientStory

_STORIES = (
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
    ClientStory(
        "the leader dies",
        "the broker that leads a partition is killed, and comes back",
        ("crash leader", "wait 2", "revive", "read 100"),
        brokers=3,
    ),
    ClientStory(
        "the leader stands still",
        "the broker that leads a partition stands still for 3 s",
        ("pause leader", "wait 3", "resume", "read 100"),
        brokers=3,
    ),
)

PRODUCER_STORIES = tuple(replace(story, role=PRODUCER) for story in _STORIES)
