"""Every bound on what one client, or all of them, may cost the broker, as one table; docs/limits.md is drawn from it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.assignors.blobs import MAX_SUBSCRIBED_TOPICS
from coterie.authentication.mechanisms import MAX_NAME_BYTES
from coterie.authentication.sasl import MAX_ITERATIONS, MIN_ITERATIONS
from coterie.authorizer.authorizer import MOST_KEPT
from coterie.broker.clients.acls import MAX_LINES, MAX_REPORTED, REPORT_AGAIN_MS
from coterie.broker.clients.bearer_tokens import MAX_KEYS_BYTES
from coterie.broker.clients.delegation_tokens import MAX_NAMES_LENGTH, MAX_TOKENS
from coterie.broker.connections.accepted_connection import CLOSE_GRACE_S, SMALL_REQUEST_BYTES
from coterie.broker.connections.open_connections import STOP_GRACE_S
from coterie.broker.connections.request_queue import MAX_WAITING
from coterie.broker.connections.tls_connection import MAX_HANDSHAKE_BYTES
from coterie.broker.handlers.administration.topic_rules import MAX_PARTITIONS_PER_REQUEST
from coterie.broker.process.descriptors import OWN_DESCRIPTORS
from coterie.broker.process.loggers import LINES_PER_SECOND
from coterie.broker.requests.message_sets import KEPT_BYTES as KEPT_MESSAGE_SET_BYTES
from coterie.broker.requests.turns import MAX_THREADS, MAX_TURN_S, REPEATED_AT_MOST
from coterie.broker.settings import BROKER_SETTINGS, format_value
from coterie.broker.storage.topic import MAX_PARTITIONS
from coterie.log.producer_states import UNVERIFIED_KEPT
from coterie.quotas import MOST_REMEMBERED
from coterie.records.walking import MAX_STORED_BYTES
from coterie.runtime.allocator import KEPT_BYTES, RETURNED_FROM_BYTES
from coterie.wire.framing import MAX_HEADER_TAGS
from coterie.wire.topic_names import FETCH, OFFSET_COMMIT, TXN_OFFSET_COMMIT


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound: on what, the setting that has it or else its fixed value, what happens beyond it, and what Kafka has."""

    on: str
    setting: str = ""
    fixed: str = ""
    beyond: str = ""
    kafka: str = "the same"

    @property
    def value(self) -> str:
        """As the table shows it: the setting's default, or the fixed value."""
        if not self.setting:
            return self.fixed
        default = format_value(BROKER_SETTINGS[self.setting].default) or "none"
        return f"{int(default):,}" if default.lstrip("-").isdigit() else default


_CLOSED = "the connection is closed, with a line in the log"
_NONE = "no limit"

LIMITS = (
    Limit("bytes of one request", "socket.request.max.bytes", beyond=_CLOSED),
    Limit("array elements of one request, in all", "coterie.request.max.elements", beyond=_CLOSED, kafka=_NONE),
    Limit("tagged fields of a request's header", fixed=f"{MAX_HEADER_TAGS:,}", beyond=_CLOSED, kafka=_NONE),
    Limit(
        f"bytes of requests larger than {SMALL_REQUEST_BYTES:,} that are being received, of all connections",
        "queued.max.request.bytes",
        beyond=f"further ones wait in their sockets, but for {SMALL_REQUEST_BYTES:,} bytes of each; small ones do not count",
        kafka="the same; small ones count",
    ),
    Limit(
        "bytes of one request before authentication, on a listener with SASL",
        "sasl.server.max.receive.size",
        beyond=_CLOSED,
    ),
    Limit(
        "time for the handshake of TLS and the first login, in ms",
        "coterie.connections.max.unauthenticated.ms",
        beyond="the connection is aborted, with a line in the log",
        kafka="as long as an idle connection",
    ),
    Limit(
        "bytes of a handshake of TLS that wait for its next step",
        fixed=f"{MAX_HANDSHAKE_BYTES:,}",
        beyond=_CLOSED,
        kafka="a record of TLS",
    ),
    Limit(
        "bytes of responses that were not read, of one connection",
        fixed="one response",
        beyond="its requests wait in the buffer, then in the socket",
        kafka="one response",
    ),
    Limit(
        "bytes of responses that were not read, of all connections",
        "coterie.queued.max.response.bytes",
        beyond="fetches return what there is room for, or wait",
        kafka="no limit; records are sent from the page cache",
    ),
    Limit(
        "time without progress of a connection that holds bytes of the two limits above, while they are short",
        "coterie.connections.max.stalled.ms",
        beyond="the connection is aborted",
        kafka=_NONE,
    ),
    Limit(
        "requests of one connection that wait for their responses",
        fixed=f"{MAX_WAITING}; one of them a fetch",
        beyond="its requests wait in the buffer, then in the socket",
        kafka="1",
    ),
    Limit(
        "work for one connection, or for one request that may take long, before others get their turn",
        fixed=f"{MAX_TURN_S * 1000:.0f} ms",
        beyond="it goes on in its next turn",
        kafka="threads",
    ),
    Limit("bytes of the response to a fetch", "fetch.max.bytes", beyond="it holds less, but one batch at least"),
    Limit(
        "time for which a fetch waits",
        "connections.max.idle.ms",
        beyond="it is answered with what there is; it ends with its connection",
    ),
    Limit("time without a request", "connections.max.idle.ms", beyond="the connection is aborted"),
    Limit("connections", "max.connections", beyond="a further one is closed", kafka="2,147,483,647"),
    Limit(
        "connections of one address; `max.connections.per.ip.overrides` has another number for some",
        "max.connections.per.ip",
        beyond="a further one is closed, with a line in the log",
    ),
    Limit(
        "iterations of a user's SCRAM credentials",
        fixed=f"{MIN_ITERATIONS:,} to {MAX_ITERATIONS:,}",
        beyond="UNACCEPTABLE_CREDENTIAL",
    ),
    Limit(
        "bytes of a user's name in a login by PLAIN",
        fixed=f"{MAX_NAME_BYTES:,}",
        beyond="SASL_AUTHENTICATION_FAILED",
        kafka=_NONE,
    ),
    Limit(
        "bytes of the keys that tokens of OAUTHBEARER are checked by, from a URL",
        fixed=f"{MAX_KEYS_BYTES:,}",
        beyond="the keys before stay",
        kafka=_NONE,
    ),
    Limit(
        "delegation tokens",
        fixed=f"{MAX_TOKENS:,}",
        beyond="POLICY_VIOLATION; all of them, with the longest names, take 3 MB",
        kafka=_NONE,
    ),
    Limit(
        "characters of the names of a delegation token's owner, requester and renewers, in all",
        fixed=f"{MAX_NAMES_LENGTH:,}",
        beyond="POLICY_VIOLATION",
        kafka=_NONE,
    ),
    Limit(
        "users, client ids and addresses whose rates are remembered for quotas, of each kind",
        fixed=f"{MOST_REMEMBERED:,}",
        beyond="all of that kind begin again; four kinds take 75 MB",
        kafka="no limit; each for an hour",
    ),
    Limit(
        "denials by ACLs that are remembered",
        fixed=f"{MAX_REPORTED:,}, each for {REPORT_AGAIN_MS // 1000} s",
        beyond="each has a further line in the log; all of them take 1 MB",
        kafka="none; each has a line in the log",
    ),
    Limit(
        "rulings by ACLs that are kept, of principals and names of up to 512 characters",
        fixed=f"{MOST_KEPT:,}",
        beyond="all of them are made again",
        kafka="none",
    ),
    Limit(
        "lines in the log about denials of one principal in a minute",
        fixed=f"{MAX_LINES:,}",
        beyond="one line says so",
        kafka=_NONE,
    ),
    Limit(
        "time by which the response to a failed login is delayed, in ms",
        "connection.failed.authentication.delay.ms",
        beyond="the response is sent, and the connection closed",
    ),
    Limit(
        "time that a login lasts, in ms; 0 is for ever",
        "connections.max.reauth.ms",
        beyond="the connection is closed at its next request, unless it has logged in again",
    ),
    Limit(
        "time in which the last responses of a closed connection are read",
        fixed=f"{CLOSE_GRACE_S:.0f} s; {STOP_GRACE_S:.0f} s while the broker stops",
        beyond="the connection is aborted",
        kafka="the responses are dropped",
    ),
    Limit(
        "file descriptors",
        fixed="ulimit -n, raised to 65,536 where that is allowed",
        beyond="connections are refused with a line, CreateTopics answers INVALID_PARTITIONS, Produce KAFKA_STORAGE_ERROR "
        f"where a segment begins; the last {OWN_DESCRIPTORS} are for other files",
        kafka="ulimit -n; CreateTopics succeeds without logs, with errors in the log",
    ),
    Limit("partitions of a topic", fixed=f"{MAX_PARTITIONS:,}", beyond="INVALID_PARTITIONS", kafka=_NONE),
    Limit(
        "partitions in one CreateTopics",
        fixed=f"{MAX_PARTITIONS_PER_REQUEST:,}",
        beyond="POLICY_VIOLATION",
        kafka="the same from 4.0 on",
    ),
    Limit(
        "names that a request repeats and that are answered each time",
        fixed=f"{REPEATED_AT_MOST}; Metadata: 1",
        beyond="each name is answered once",
        kafka="no limit; Metadata: 1",
    ),
    Limit(
        "topics in a response to DescribeTopicPartitions, in partitions",
        "max.request.partition.size.limit",
        beyond="a cursor names where the next request continues",
    ),
    Limit(
        "topics of a member's subscription that the coordinator reads",
        fixed=f"{MAX_SUBSCRIBED_TOPICS:,}",
        beyond="its topics count as unknown",
        kafka=_NONE,
    ),
    Limit(
        "bytes of a member's metadata for one protocol",
        "message.max.bytes",
        beyond="INVALID_REQUEST",
        kafka="the SyncGroup fails with an unknown error",
    ),
    Limit("members of a group", "group.max.size", beyond="GROUP_MAX_SIZE_REACHED"),
    Limit("members of a group of the consumer protocol", "group.consumer.max.size", beyond="GROUP_MAX_SIZE_REACHED"),
    Limit("members of a group of Kafka Streams", "group.streams.max.size", beyond="GROUP_MAX_SIZE_REACHED"),
    Limit("members of a share group", "group.share.max.size", beyond="GROUP_MAX_SIZE_REACHED"),
    Limit(
        "records of a partition in flight in a share group; a group may set up to `group.share.max.partition.max.record.locks`",
        "group.share.partition.max.record.locks",
        beyond="no more are acquired until some are acknowledged",
    ),
    Limit(
        "deliveries of a record in a share group; a group may set up to `group.share.max.delivery.count.limit`",
        "group.share.delivery.count.limit",
        beyond="it is archived",
    ),
    Limit("share sessions", "group.share.max.share.sessions", beyond="SHARE_SESSION_LIMIT_REACHED"),
    Limit("bytes of a committed offset's metadata", "offset.metadata.max.bytes", beyond="OFFSET_METADATA_TOO_LARGE"),
    Limit("bytes of a batch", "message.max.bytes", beyond="MESSAGE_TOO_LARGE"),
    Limit(
        "bytes of a record in a compressed batch",
        "max.decompressed.message.bytes",
        beyond="INVALID_RECORD",
        kafka="the same from 4.4 on",
    ),
    Limit(
        "bytes to which a compressed batch, or a message of an old format, unfolds",
        fixed=f"{MAX_STORED_BYTES:,}",
        beyond="MESSAGE_TOO_LARGE",
        kafka=_NONE,
    ),
    Limit(
        "threads in which batches are unfolded, checked, or converted for Fetch 0 to 3",
        fixed=f"{MAX_THREADS}",
        beyond="they wait; other requests are answered meanwhile",
        kafka="`num.io.threads`",
    ),
    Limit(
        "bytes of converted batches that are kept for the next Fetch 0 to 3",
        fixed=f"{KEPT_MESSAGE_SET_BYTES:,}",
        beyond="the oldest go",
        kafka="none are kept",
    ),
    Limit(
        "producers of transactions without records in a partition whose refused batches it remembers",
        fixed=f"{UNVERIFIED_KEPT:,}",
        beyond="the first of them is forgotten",
        kafka=_NONE,
    ),
    Limit(
        "incremental fetch sessions",
        "max.incremental.fetch.session.cache.slots",
        beyond="a fetch is answered in full, without a session",
    ),
    Limit(
        "bytes by which the process stays larger after what it held is freed (Linux)",
        fixed=f"{RETURNED_FROM_BYTES + KEPT_BYTES:,}",
        beyond="they are returned to the system, within a second",
        kafka="the heap of the JVM",
    ),
    Limit("bytes of metrics in one push", "telemetry.max.bytes", beyond="TELEMETRY_TOO_LARGE"),
    Limit(
        "lines of one kind about clients in the log",
        fixed=f"{LINES_PER_SECOND} in a second",
        beyond="one line has the number of the others",
        kafka=_NONE,
    ),
)

_BEGINNING = """# Limits

What one client, or all of them together, may cost the broker. Drawn from `tests/broker/limits_page.py`; the settings are
given by `--set NAME=VALUE`. Where strangers may connect, set `queued.max.request.bytes=104857600` as well: Kafka's default
has no limit on requests that are being received.

| limit on | setting | default | beyond it | Apache Kafka |
|---|---|---|---|---|
"""


_OF_THE_CLIENT = f"""
## Versions that coterie's own client does not send

| API | client's newest | what the broker has beyond it | why the client does not send it |
|---|---|---|---|
| ApiVersions | 3 | 4: features whose lowest level is 0; 5 (Kafka 4.4, KIP-1242): the cluster and broker that the client means \
to reach, and REBOOTSTRAP_REQUIRED where it is another | it is a connection's first request, when its versions are not \
known: each older broker would refuse it, which costs a round trip. So a connection that reaches another cluster is \
not noticed |
| TxnOffsetCommit | {TXN_OFFSET_COMMIT} | 6 (Kafka 4.4): topics by their id alone | the client names topics, as in \
OffsetCommit and OffsetFetch ({OFFSET_COMMIT}) and Fetch ({FETCH}). So an offset of a topic that was deleted and made again \
counts for the new one |
"""


def markdown() -> str:
    """The page docs/limits.md."""
    rows = (
        f"| {limit.on} | {f'`{limit.setting}`' if limit.setting else 'fixed'} | {limit.value} | {limit.beyond} "
        f"| {limit.kafka} |\n"
        for limit in LIMITS
    )
    return _BEGINNING + "".join(rows) + _OF_THE_CLIENT


if __name__ == "__main__":
    print(markdown(), end="")
