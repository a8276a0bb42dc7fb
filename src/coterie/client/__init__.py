"""Ring 3: the asyncio consumer, producer and admin, and a blocking face for scripts (`coterie.client.blocking`).

    >>> async with Admin(settings) as admin:
    ...     await admin.create_topic("greetings", 1)
    >>> async with Producer(settings) as producer:
    ...     delivery = await producer.send("greetings", b"hello", key=b"world")
    ...     print((await delivery).offset)
    0
    >>> async with Consumer(settings | {"group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
    ...     consumer.subscribe(["greetings"])
    ...     async for record in consumer:
    ...         print(record.topic, record.offset, record.value)
    ...         break
    greetings 0 b'hello'

``settings`` are by Kafka's names: ``{"bootstrap.servers": "127.0.0.1:9092"}``. All of it works with Apache Kafka's brokers, but
for `Admin.explain_group`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coterie.client.errors import (
    AcquiredRecordError,
    AuthenticationError,
    AuthorizationError,
    BootstrapError,
    ClientBugError,
    CommitFailedError,
    ConfigError,
    CorruptBatchError,
    FatalError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    PartitionsLostError,
    ProducerFencedError,
    RebalanceInProgressError,
    RecordDeserializationError,
    RejoinNeededError,
    RetriableError,
    SeekNeededError,
    SerializationError,
    SslAuthenticationError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    WakeupError,
)
from coterie.client.serialization import (
    BytesDeserializer,
    BytesSerializer,
    Deserializer,
    IntegerDeserializer,
    IntegerSerializer,
    JsonDeserializer,
    JsonSerializer,
    LongDeserializer,
    LongSerializer,
    Serializer,
    StringDeserializer,
    StringSerializer,
)
from coterie.client.types import (
    ConsumerGroupMetadata,
    ConsumerInterceptor,
    GroupMembershipOperation,
    OffsetAndMetadata,
    RebalanceListener,
    Record,
    RecordMetadata,
    SubscriptionPattern,
    TimestampType,
    TopicPartition,
)
from coterie.wire.errors import ErrorCode

if TYPE_CHECKING:
    from coterie.assignors import AssignableTopics, Assignor, RebalanceProtocol, Subscriber
    from coterie.authorizer.acls import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
    from coterie.client.admin.admin import Admin
    from coterie.client.admin.brokers import TelemetryClient
    from coterie.client.admin.cluster_types import (
        ActiveProducer,
        ConfigResource,
        ConfigResourceType,
        FeatureMetadata,
        FeatureUpgradeType,
        LogDirDescription,
        ReplicaInfo,
        TokenDescription,
        TransactionDescription,
        TransactionListing,
        TransactionState,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
        VersionRange,
    )
    from coterie.client.admin.each import NewTopic
    from coterie.client.admin.group_explanation import (
        AwaitedMember,
        GroupExplanation,
        MemberExplanation,
        NextTimeout,
        PartitionProgress,
        PushedMetric,
        ReservedMemberId,
    )
    from coterie.client.admin_types import (
        ClusterDescription,
        ConfigEntry,
        ConfigSource,
        ConsumerGroupDescription,
        GroupListing,
        GroupState,
        GroupType,
        MemberAssignment,
        MemberDescription,
        MemberSubscription,
        MemberTasks,
        Node,
        PartitionLag,
        PartitionReassignment,
        SharePartitionOffset,
        TopicDescription,
        TopicPartitionInfo,
    )
    from coterie.client.consumer.consumer import Consumer
    from coterie.client.lint.rule import Advice, LintFinding
    from coterie.client.producer.delivery import Delivery
    from coterie.client.producer.producer import Producer
    from coterie.client.settings.typed import AdminSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings
    from coterie.client.share.consumer import ShareConsumer
    from coterie.consuming.record import ShareRecord
    from coterie.consuming.sharing.acknowledgements import AcknowledgeType
    from coterie.text.phrase import Phrase

# Imported at their first use: a process that needs errors and records alone, as those of a Spark job do, starts sooner.
_NAMES = {
    "coterie.authorizer.acls": "Acl AclFilter AclOperation AclResourceType PatternType Permission",
    "coterie.assignors": "AssignableTopics Assignor RebalanceProtocol Subscriber",
    "coterie.client.admin.admin": "Admin",
    "coterie.client.admin.cluster_types": (
        "ActiveProducer ConfigResource ConfigResourceType FeatureMetadata FeatureUpgradeType LogDirDescription ReplicaInfo "
        "TokenDescription TransactionDescription TransactionListing TransactionState UserScramCredentialDeletion "
        "UserScramCredentialUpsertion VersionRange"
    ),
    "coterie.client.admin.each": "NewTopic",
    "coterie.client.admin_types": (
        "ClusterDescription ConfigEntry ConfigSource ConsumerGroupDescription GroupListing GroupState GroupType "
        "MemberAssignment MemberDescription MemberSubscription MemberTasks Node PartitionLag PartitionReassignment "
        "SharePartitionOffset TopicDescription TopicPartitionInfo"
    ),
    "coterie.client.lint.rule": "Advice LintFinding",
    "coterie.client.producer.delivery": "Delivery",
    "coterie.client.consumer.consumer": "Consumer",
    "coterie.client.admin.group_explanation": (
        "AwaitedMember GroupExplanation MemberExplanation NextTimeout PartitionProgress PushedMetric ReservedMemberId"
    ),
    "coterie.client.producer.producer": "Producer",
    "coterie.client.admin.brokers": "TelemetryClient",
    "coterie.client.settings.typed": "AdminSettings ConsumerSettings ProducerSettings ShareConsumerSettings",
    "coterie.client.share.consumer": "ShareConsumer",
    "coterie.consuming.record": "ShareRecord",
    "coterie.consuming.sharing.acknowledgements": "AcknowledgeType",
    "coterie.text.phrase": "Phrase",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # so that a type checker still reports a name that does not exist

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__} has no attribute {name}")
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return __all__


__all__ = [
    "AcknowledgeType",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclResourceType",
    "AcquiredRecordError",
    "ActiveProducer",
    "Admin",
    "AdminSettings",
    "Advice",
    "AssignableTopics",
    "Assignor",
    "AuthenticationError",
    "AuthorizationError",
    "AwaitedMember",
    "BootstrapError",
    "BytesDeserializer",
    "BytesSerializer",
    "ClientBugError",
    "ClusterDescription",
    "CommitFailedError",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "Consumer",
    "ConsumerGroupDescription",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerSettings",
    "CorruptBatchError",
    "Delivery",
    "Deserializer",
    "ErrorCode",
    "FatalError",
    "FeatureMetadata",
    "FeatureUpgradeType",
    "FencedInstanceIdError",
    "GroupExplanation",
    "GroupListing",
    "GroupMembershipOperation",
    "GroupState",
    "GroupType",
    "IntegerDeserializer",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "KafkaError",
    "KafkaTimeoutError",
    "LintFinding",
    "LogDirDescription",
    "LogTruncationError",
    "LongDeserializer",
    "LongSerializer",
    "MemberAssignment",
    "MemberDescription",
    "MemberExplanation",
    "MemberSubscription",
    "MemberTasks",
    "NewTopic",
    "NextTimeout",
    "Node",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "PartitionLag",
    "PartitionProgress",
    "PartitionReassignment",
    "PartitionsLostError",
    "PatternType",
    "Permission",
    "Phrase",
    "Producer",
    "ProducerFencedError",
    "ProducerSettings",
    "PushedMetric",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RebalanceProtocol",
    "Record",
    "RecordDeserializationError",
    "RecordMetadata",
    "RejoinNeededError",
    "ReplicaInfo",
    "ReservedMemberId",
    "RetriableError",
    "SeekNeededError",
    "SerializationError",
    "Serializer",
    "ShareConsumer",
    "ShareConsumerSettings",
    "SharePartitionOffset",
    "ShareRecord",
    "SslAuthenticationError",
    "StringDeserializer",
    "StringSerializer",
    "Subscriber",
    "SubscriptionPattern",
    "TelemetryClient",
    "TimestampType",
    "TokenDescription",
    "TopicDescription",
    "TopicPartition",
    "TopicPartitionInfo",
    "TransactionAbortableError",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UnknownTopicOrPartitionError",
    "UnsupportedVersionError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "VersionRange",
    "WakeupError",
]
