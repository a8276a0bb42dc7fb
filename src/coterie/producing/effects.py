"""What a producer's machine requests of its driver: each effect is returned once, carried out, and reported back."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.producing.batch import ProducerBatch, TopicPartition
from coterie.wire.messages.logs.produce import ProduceRequest


@dataclass(frozen=True, slots=True)
class SendProduce:
    """Send to that broker, then call `produced` or `request_failed` with the token. With acks=0 there is no response: call
    `sent`."""

    token: int
    node_id: int
    request: ProduceRequest


@dataclass(frozen=True, slots=True)
class LookUpLeaders:
    """Look the leaders of these topics up, then call `leaders_looked_up`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ForgetLeaders:
    """What is known of the topic is out of date: `leader_of` is to return None until a look-up."""

    topic: str


@dataclass(frozen=True, slots=True)
class GetProducerId:
    """Send InitProducerId without a transactional id to any broker, then call `identified` or `not_identified`."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Have these take part in the open transaction, then call `partitions_added` or `partitions_refused`."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class BatchEnded:
    """Every record of the batch has its result (`ProducerBatch.result_of`)."""

    batch: ProducerBatch


Effect = SendProduce | LookUpLeaders | ForgetLeaders | GetProducerId | AddPartitions | BatchEnded
