"""The settings of clients by Kafka's names, with dots or underscores.

Types, defaults and ranges are those of Kafka's ConsumerConfig, ProducerConfig and AdminClientConfig; tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from coterie.assignors import Assignor
from coterie.authentication.sasl import MECHANISMS
from coterie.client.errors import ConfigError
from coterie.client.security import OAUTHBEARER, PROTOCOLS, Security, TokenCallback, jaas_login
from coterie.client.serialization import DeserializerLike, SerializerLike
from coterie.client.settings.protocols import require_allowed
from coterie.client.settings.types import (
    ADDRESSES,
    ASSIGNOR_LIST,
    DESERIALIZER,
    EXACT_PASSWORD,
    EXACT_TEXT,
    LOWER_CASE,
    OBJECTS,
    PARTITIONER,
    SERIALIZER,
    TOKEN_CALLBACK,
    UPPER_CASE,
    Partitioner,
    address,
)
from coterie.configuration import (
    BOOLEAN,
    INT,
    LONG,
    PASSWORD,
    STRING,
    Declaration,
    Rule,
    Setting,
    SettingError,
    ValueType,
    at_least,
    declared,
    one_of,
    read_settings,
    settings_of,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D", bound=Declaration)

EVERY, CONSUMER, SHARE, PRODUCER = "every client", "consumer", "share consumer", "producer"
SECURITY = "TLS and SASL (every client)"
_NOT_EMPTY = Rule("a text that is not empty", lambda value: value != "")


@dataclass(frozen=True, slots=True)
class ClientSetting(Setting[T_co]):
    """``used_by``: one of the five above."""

    used_by: str = EVERY


def _every(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(ClientSetting("", value_type, default, rule, documentation))


def _consumer(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(ClientSetting("", value_type, default, rule, documentation, used_by=CONSUMER))


def _share(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(ClientSetting("", value_type, default, rule, documentation, used_by=SHARE))


def _producer(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(ClientSetting("", value_type, default, rule, documentation, used_by=PRODUCER))


def _security(value_type: ValueType[T], default: T, documentation: str, rule: Rule | None = None) -> T:
    return declared(ClientSetting("", value_type, default, rule, documentation, used_by=SECURITY))


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The values in force, of all clients; `client_settings` reads them."""

    bootstrap_servers: tuple[str, ...] = _every(
        ADDRESSES,
        (),
        "HOST:PORT of brokers to connect to first, of one at least; the others are learnt from their metadata.",
    )
    client_id: str = _every(STRING, "coterie", "The name under which brokers log and report this client.")
    request_timeout_ms: int = _every(INT, 30_000, "How long to wait for the response to one request.", at_least(0))
    retry_backoff_ms: int = _every(
        LONG,
        100,
        "The pause before a failed request is sent again; it doubles with each failure in a row.",
        at_least(0),
    )
    retry_backoff_max_ms: int = _every(LONG, 1_000, "The longest such pause.", at_least(0))
    default_api_timeout_ms: int = _every(
        INT, 60_000, "How long a method that waits for the broker may take before it fails.", at_least(0)
    )
    metadata_max_age_ms: int = _every(
        LONG, 300_000, "The age at which topics and leaders are looked up again without any cause.", at_least(0)
    )
    group_id: str | None = _consumer(
        STRING,
        None,
        "The group to join or to commit to; without one, partitions are assigned by hand and nothing is committed.",
    )
    group_protocol: str = _consumer(
        LOWER_CASE,
        "classic",
        "classic: members assign partitions among themselves; consumer: the broker does, and moves them one by one (KIP-848, "
        "Apache Kafka 4.0).",
        one_of("classic", "consumer"),
    )
    group_remote_assignor: str | None = _consumer(
        STRING,
        None,
        "The broker's assignor for the group, `uniform` or `range`, with group.protocol=consumer; without one the broker "
        "chooses.",
    )
    group_instance_id: str | None = _consumer(
        STRING,
        None,
        "Makes the member static (KIP-345): one that restarts under the same id keeps its partitions.",
        _NOT_EMPTY,
    )
    client_rack: str | None = _consumer(
        STRING,
        None,
        "The rack of this client, for assignors that match it with the racks of partitions (KIP-881), and for leaders that "
        "name a nearer replica to read from (KIP-392).",
    )
    session_timeout_ms: int = _consumer(
        INT, 45_000, "A member without a heartbeat for so long is removed from its group."
    )
    heartbeat_interval_ms: int = _consumer(
        INT, 3_000, "The time between two heartbeats; a third of the session timeout or less."
    )
    max_poll_interval_ms: int = _consumer(
        INT,
        300_000,
        "A member that does not call `poll` for so long leaves its group. Also its rebalance timeout.",
        at_least(1),
    )
    max_poll_records: int = _consumer(INT, 500, "The most records that one `poll` returns.", at_least(1))
    partition_assignment_strategy: tuple[str | Assignor, ...] = _consumer(
        ASSIGNOR_LIST,
        ("range", "cooperative-sticky"),
        "Assignors in order of preference, names or subclasses of `coterie.client.Assignor`; the group uses one that every "
        "member lists.",
    )
    auto_offset_reset: str = _consumer(
        STRING,
        "latest",
        "Where to begin without a committed offset, or with one that the log no longer holds; none: fail.",
        one_of("earliest", "latest", "none"),
    )
    enable_auto_commit: bool = _consumer(
        BOOLEAN, True, "Whether positions are committed in the background, and when partitions are revoked."
    )
    auto_commit_interval_ms: int = _consumer(INT, 5_000, "The time between two such commits.", at_least(0))
    fetch_min_bytes: int = _consumer(
        INT, 1, "A fetch waits until so many bytes are there, or fetch.max.wait.ms has passed.", at_least(0)
    )
    fetch_max_bytes: int = _consumer(
        INT,
        52_428_800,
        "The most bytes in the response to one fetch; a first batch that is larger is still returned.",
        at_least(0),
    )
    fetch_max_wait_ms: int = _consumer(
        INT, 500, "The longest time for which a fetch waits for fetch.min.bytes.", at_least(0)
    )
    max_partition_fetch_bytes: int = _consumer(
        INT, 1_048_576, "The most bytes of one partition in the response to one fetch.", at_least(0)
    )
    isolation_level: str = _consumer(
        STRING,
        "read_uncommitted",
        "Whether records of open and aborted transactions are returned.",
        one_of("read_uncommitted", "read_committed"),
    )
    allow_auto_create_topics: bool = _every(
        BOOLEAN, True, "Whether a topic that does not exist may be created by requesting its metadata."
    )
    exclude_internal_topics: bool = _consumer(
        BOOLEAN, True, "Whether a pattern leaves out internal topics such as `__consumer_offsets`."
    )
    share_acknowledgement_mode: str = _share(
        LOWER_CASE,
        "implicit",
        "implicit: the next poll or commit accepts the records of the last poll; explicit: "
        "`acknowledge` is called for each record before the next poll.",
        one_of("implicit", "explicit"),
    )
    share_acquire_mode: str = _share(
        LOWER_CASE,
        "batch_optimized",
        "batch_optimized: whole batches are acquired, and a poll may return more than max.poll.records; "
        "record_limit: never more (KIP-1206).",
        one_of("batch_optimized", "record_limit"),
    )
    check_crcs: bool = _consumer(BOOLEAN, True, "Whether the checksum of each batch is verified.")
    interceptor_classes: tuple[object, ...] = _consumer(
        OBJECTS, (), "ConsumerInterceptor classes or objects that see records and commits."
    )
    key_deserializer: DeserializerLike[Any] | None = _consumer(
        DESERIALIZER, None, "As value.deserializer, for keys; the argument of `Consumer` has precedence."
    )
    value_deserializer: DeserializerLike[Any] | None = _consumer(
        DESERIALIZER,
        None,
        "What makes objects of bytes: Kafka's class name (`StringDeserializer`), an import path, a class, an object or a "
        "function; without one, values are bytes. The argument of `Consumer` has precedence.",
    )
    acks: str = _producer(
        STRING,
        "all",
        "The replicas that must have a record before it counts as sent; with 0 the broker does not respond.",
        one_of("0", "1", "all", "-1"),
    )
    enable_idempotence: bool = _producer(
        BOOLEAN, True, "Whether a batch that is sent again is stored once; needs acks=all."
    )
    compression_type: str = _producer(
        STRING, "none", "The compression of batches.", one_of("none", "gzip", "snappy", "lz4", "zstd")
    )
    batch_size: int = _producer(
        INT, 16_384, "The size at which a batch is sent without waiting longer; bytes.", at_least(0)
    )
    linger_ms: int = _producer(LONG, 5, "How long a batch that is not full waits for further records.", at_least(0))
    buffer_memory: int = _producer(
        LONG, 33_554_432, "The most bytes that wait to be sent; `send` waits where they are used up.", at_least(0)
    )
    delivery_timeout_ms: int = _producer(
        INT, 120_000, "A record that is not acknowledged within this time fails.", at_least(0)
    )
    max_request_size: int = _producer(INT, 1_048_576, "The largest request; a larger record fails.", at_least(0))
    max_in_flight_requests_per_connection: int = _producer(
        INT,
        5,
        "The most requests to one broker without a response; at most 5 with idempotence. Without idempotence, one batch of a "
        "partition is in flight at a time.",
        at_least(1),
    )
    max_block_ms: int = _producer(
        LONG,
        60_000,
        "How long `send` waits for metadata or for buffer memory, and calls about transactions for their result, before they "
        "fail.",
        at_least(0),
    )
    partitioner: Partitioner | None = _producer(
        PARTITIONER,
        None,
        "A function that chooses a record's partition; without one, the hash of the key as in Java's client.",
    )
    key_serializer: SerializerLike[Any] | None = _producer(
        SERIALIZER, None, "As value.serializer, for keys; the argument of `Producer` has precedence."
    )
    value_serializer: SerializerLike[Any] | None = _producer(
        SERIALIZER,
        None,
        "What makes bytes of objects: Kafka's class name (`StringSerializer`), an import path, a class, an object or a "
        "function; without one, values are bytes. The argument of `Producer` has precedence.",
    )
    transactional_id: str | None = _producer(
        STRING, None, "Makes the producer transactional; a newer producer with the same id fences this one.", _NOT_EMPTY
    )
    transaction_timeout_ms: int = _producer(INT, 60_000, "The coordinator aborts a transaction that is open longer.")
    security_protocol: str = _security(
        UPPER_CASE, "PLAINTEXT", "How to connect: with TLS or not, with SASL or not.", one_of(*PROTOCOLS)
    )
    ssl_truststore_type: str = _security(STRING, "PEM", "PEM is the only type.")
    ssl_truststore_location: str | None = _security(
        STRING, None, "A PEM file with the certificates to trust; without it, the system's."
    )
    ssl_keystore_type: str = _security(STRING, "PEM", "PEM is the only type.")
    ssl_keystore_location: str | None = _security(STRING, None, "A PEM file with this client's certificate and key.")
    ssl_key_password: str | None = _security(PASSWORD, None, "The password of that key.")
    ssl_endpoint_identification_algorithm: str = _security(
        STRING, "https", "https: the certificate must be for the broker's host name; empty: any name."
    )
    sasl_mechanism: str = _security(STRING, "PLAIN", "The mechanism of SASL.", one_of(*MECHANISMS))
    sasl_username: str | None = _security(EXACT_TEXT, None, "The user, for PLAIN and SCRAM.")
    sasl_password: str | None = _security(EXACT_PASSWORD, None, "The password, for PLAIN and SCRAM.")
    sasl_jaas_config: str | None = _security(
        PASSWORD, None, "User and password as Java's clients write them, or a token's, in place of the two above."
    )
    sasl_oauthbearer_token_callback: TokenCallback | None = _security(
        TOKEN_CALLBACK, None, "A function without arguments that returns a token for each login by OAUTHBEARER."
    )
    sasl_oauthbearer_token_endpoint_url: str | None = _security(
        STRING, None, "file:///PATH of a file with a token, in place of a function; it is read at each login."
    )

    @property
    def committed_only(self) -> bool:
        """isolation.level: whether only records of decided transactions, and only committed ones, count."""
        return self.isolation_level == "read_committed"

    def security(self) -> Security:
        """What a connection needs for TLS and SASL; sasl.jaas.config wins over sasl.username. Raises ConfigError."""
        protocol, username, password = self.security_protocol, self.sasl_username, self.sasl_password
        login = jaas_login(self.sasl_jaas_config or "")
        username, password = login.get("username", username), login.get("password", password)
        token_file = self._token_file()
        has_login = username is not None and password is not None
        if self.sasl_mechanism == OAUTHBEARER:
            has_login = self.sasl_oauthbearer_token_callback is not None or token_file is not None
            needed = "sasl.oauthbearer.token.callback or sasl.oauthbearer.token.endpoint.url"
        else:
            needed = "sasl.username and sasl.password (or sasl.jaas.config)"
        if protocol.startswith("SASL_") and not has_login:
            raise ConfigError(f"security.protocol={protocol} needs {needed}")
        stores = {"ssl.truststore.type": self.ssl_truststore_type, "ssl.keystore.type": self.ssl_keystore_type}
        for name, store_type in stores.items():
            if store_type != "PEM":
                raise ConfigError(
                    f"{name} must be PEM here; `keytool` and `openssl pkcs12` turn a {store_type} into PEM"
                )
        return Security(
            protocol,
            self.ssl_truststore_location,
            self.ssl_keystore_location,
            self.ssl_key_password,
            check_host=self.ssl_endpoint_identification_algorithm.lower() == "https",
            mechanism=self.sasl_mechanism,
            username=username,
            password=password,
            token_callback=self.sasl_oauthbearer_token_callback,
            token_file=token_file,
            is_token=login.get("tokenauth", "").lower() == "true",
        )

    def _token_file(self) -> str | None:
        """Raises ConfigError."""
        url = self.sasl_oauthbearer_token_endpoint_url
        if url is None:
            return None
        if not url.startswith("file:///"):
            raise ConfigError(
                f"sasl.oauthbearer.token.endpoint.url must be file:///PATH here, not {url}; for an endpoint give "
                "sasl.oauthbearer.token.callback, a function"
            )
        return url.removeprefix("file://")

    def bootstrap(self) -> list[tuple[str, int]]:
        """Host and port of each address of bootstrap.servers."""
        return [address(item) for item in self.bootstrap_servers]


CLIENT_SETTINGS: dict[str, ClientSetting[object]] = settings_of(ClientSettings, ClientSetting)


def client_settings(given: Mapping[str, object]) -> ClientSettings:
    """The settings of a client; those not given have their defaults. Raises ConfigError for an unknown name, a bad value, or a
    setting of the other group protocol."""
    settings = read_client_settings(ClientSettings, CLIENT_SETTINGS, given)
    names = {name.replace("_", ".") for name in given}
    require_allowed(names, settings.group_protocol)
    if any(CLIENT_SETTINGS[name].used_by == SHARE for name in names):
        raise ConfigError("settings share.* are for a ShareConsumer alone: leave them out")
    if settings.group_id is not None and not settings.group_id.strip():
        raise ConfigError("group.id must not be empty or blank: leave it out to read without a group")
    if settings.group_id is None and settings.enable_auto_commit and "enable.auto.commit" in names:
        raise ConfigError("enable.auto.commit=true needs a group.id: leave it out to read without a group")
    return settings


def read_client_settings(declaration: type[D], table: Mapping[str, Setting[object]], given: Mapping[str, object]) -> D:
    """As `read_settings`; names may have underscores for dots. Raises ConfigError."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"settings must be a mapping from names to values, not {given!r}")
    dotted: dict[str, object] = {}
    for name, value in given.items():
        if not isinstance(name, str):
            raise ConfigError(f"the name of a setting must be text, not {name!r}")
        if (dotted_name := name.replace("_", ".")) in dotted:
            raise ConfigError(f"{dotted_name} is given twice, with dots and with underscores")
        dotted[dotted_name] = value
    for name in dotted.keys() - table.keys():
        from coterie.client.settings.foreign import foreign_setting  # few programs need it

        sentence = foreign_setting(name)
        if sentence is not None:
            raise ConfigError(sentence)
    try:
        return read_settings(declaration, table, dotted, "client setting")
    except SettingError as error:
        raise ConfigError(str(error)) from error
