"""What each client setting means and which client uses it; defaults and checks are in `settings`.

The names and their meaning are Kafka's (ConsumerConfig, ProducerConfig, AdminClientConfig).
"""

from __future__ import annotations

from typing import NamedTuple

EVERY, CONSUMER, PRODUCER, SECURITY = "every client", "consumer", "producer", "TLS and SASL (every client)"


class Description(NamedTuple):
    """``used_by``: one of the four above. ``text``: sentences."""

    used_by: str
    text: str


_TEXTS = {
    EVERY: {
        "bootstrap.servers": "HOST:PORT of brokers to connect to first; the others are learnt from their metadata.",
        "client.id": "The name under which brokers log and report this client.",
        "request.timeout.ms": "How long to wait for the response to one request.",
        "retry.backoff.ms": "The pause before a failed request is sent again; it doubles with each failure in a row.",
        "retry.backoff.max.ms": "The longest such pause.",
        "default.api.timeout.ms": "How long a method that waits for the broker may take before it fails.",
        "metadata.max.age.ms": "The age at which topics and leaders are looked up again without any cause.",
        "allow.auto.create.topics": "Whether a topic that does not exist may be created by asking for its metadata.",
    },
    CONSUMER: {
        "group.id": "The group to join or to commit to; without one, partitions are assigned by hand and nothing is committed.",
        "group.instance.id": "Makes the member static (KIP-345): one that restarts under the same id keeps its partitions.",
        "client.rack": "The rack of this client, for assignors that match it with the racks of partitions (KIP-881).",
        "session.timeout.ms": "A member without a heartbeat for so long is removed from its group.",
        "heartbeat.interval.ms": "The time between two heartbeats; a third of the session timeout or less.",
        "max.poll.interval.ms": "A member that does not call `poll` for so long leaves its group. Also its rebalance timeout.",
        "max.poll.records": "The most records that one `poll` returns.",
        "partition.assignment.strategy": "Assignors in order of preference; the group uses one that every member lists.",
        "auto.offset.reset": "Where to begin without a committed offset, or with one that the log no longer holds; none: fail.",
        "enable.auto.commit": "Whether positions are committed in the background, and when partitions are revoked.",
        "auto.commit.interval.ms": "The time between two such commits.",
        "fetch.min.bytes": "A fetch waits until so many bytes are there, or fetch.max.wait.ms has passed.",
        "fetch.max.bytes": "The most bytes in the response to one fetch; a first batch that is larger is still returned.",
        "fetch.max.wait.ms": "The longest time for which a fetch waits for fetch.min.bytes.",
        "max.partition.fetch.bytes": "The most bytes of one partition in the response to one fetch.",
        "isolation.level": "Whether records of open and aborted transactions are returned.",
        "exclude.internal.topics": "Whether a pattern leaves out internal topics such as `__consumer_offsets`.",
        "check.crcs": "Whether the checksum of each batch is verified.",
        "interceptor.classes": "ConsumerInterceptor classes or objects that see records and commits.",
    },
    PRODUCER: {
        "acks": "The replicas that must have a record before it counts as sent; with 0 the broker does not respond.",
        "enable.idempotence": "Whether a batch that is sent again is stored once; needs acks=all.",
        "compression.type": "The compression of batches.",
        "batch.size": "The size at which a batch is sent without waiting longer; bytes.",
        "linger.ms": "How long a batch that is not full waits for further records.",
        "buffer.memory": "The most bytes that wait to be sent; `send` waits where they are used up.",
        "delivery.timeout.ms": "A record that is not acknowledged within this time fails.",
        "max.request.size": "The largest request; a larger record fails.",
        "max.block.ms": "How long `send` waits for metadata or for buffer memory before it fails.",
        "partitioner": "A function that chooses a record's partition; without one, the hash of the key as in Java's client.",
        "transactional.id": "Makes the producer transactional; a newer producer with the same id fences this one.",
        "transaction.timeout.ms": "The coordinator aborts a transaction that is open for longer.",
    },
    SECURITY: {
        "security.protocol": "How to connect: with TLS or not, with SASL or not.",
        "ssl.truststore.type": "PEM is the only type.",
        "ssl.truststore.location": "A PEM file with the certificates to trust; without it, the system's.",
        "ssl.keystore.type": "PEM is the only type.",
        "ssl.keystore.location": "A PEM file with this client's certificate and key.",
        "ssl.key.password": "The password of that key.",
        "ssl.endpoint.identification.algorithm": "https: the certificate must be for the broker's host name; empty: any name.",
        "sasl.mechanism": "The mechanism of SASL.",
        "sasl.username": "The user, for PLAIN and SCRAM.",
        "sasl.password": "The password, for PLAIN and SCRAM.",
        "sasl.jaas.config": "User and password as Java's clients write them, in place of the two above.",
    },
}

DESCRIPTIONS: dict[str, Description] = {
    name: Description(used_by, text) for used_by, texts in _TEXTS.items() for name, text in texts.items()
}
