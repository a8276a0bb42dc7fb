"""BlockingAdminCalls: written by tests/client/blocking_source.py from the bases of `coterie.client.Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.authorizer.acls import Acl, AclFilter
from coterie.client.admin.admin import Admin
from coterie.client.admin.cluster_types import (
    ActiveProducer,
    ConfigResource,
    ConfigResourceType,
    FeatureMetadata,
    FeatureUpgradeType,
    LogDirDescription,
    TokenDescription,
    TransactionDescription,
    TransactionListing,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from coterie.client.admin_types import ConfigEntry, Node, SharePartitionOffset
from coterie.client.blocking.thread import BlockingClient
from coterie.client.errors import KafkaError
from coterie.client.types import ByPartition, ClientQuotaEntity, PartitionLike, TopicPartition


class BlockingAdminCalls(BlockingClient[Admin]):
    """Of `BlockingAdmin`."""

    def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The ACLs that a filter describes, in order; all without one. Raises KafkaError SECURITY_DISABLED of a broker without
        an authorizer, CLUSTER_AUTHORIZATION_FAILED without the right to DESCRIBE the cluster."""
        return self._await(self._client.describe_acls, wanted)

    def create_acls(self, acls: Iterable[Acl], *, errors: dict[Acl, KafkaError] | None = None) -> None:
        """Creates ACLs; one that exists stays. Raises the KafkaError of the first that is refused, and then the others are
        created: INVALID_REQUEST for one that cannot be; and as `describe_acls`, where the right is to ALTER the cluster. With
        ``errors`` each that is refused is put there with its error instead."""
        self._await(self._client.create_acls, acls, errors=errors)

    def delete_acls(
        self, filters: Iterable[AclFilter], *, errors: dict[AclFilter | Acl, KafkaError] | None = None
    ) -> list[Acl]:
        """Deletes the ACLs that any of the filters describes, and returns them in order. Raises as `create_acls` does;
        ``errors`` receives the filters that are refused, and the ACLs that are not deleted."""
        return self._await(self._client.delete_acls, filters, errors=errors)

    def describe_features(self) -> FeatureMetadata:
        """The features of a broker, whichever responds."""
        return self._await(self._client.describe_features)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Sets the levels of features, 0 to switch one off; all of them or none. ``validate_only``: changes nothing. Raises
        KafkaError INVALID_UPDATE_VERSION, CLUSTER_AUTHORIZATION_FAILED."""
        self._await(self._client.update_features, levels, upgrade_type=upgrade_type, validate_only=validate_only)

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, errors: dict[Node, KafkaError] | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """The log directories of every broker, or of ``brokers``, by broker id, with the size of each replica. ``errors`` as in
        `list_groups`. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED of a broker."""
        return self._await(self._client.describe_log_dirs, brokers, errors=errors)

    def describe_configs(self, resource: str | ConfigResource) -> dict[str, ConfigEntry]:
        """Every setting of a topic, or of another `ConfigResource`, by name, defaults included. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, and INVALID_REQUEST for a broker that is not of the cluster."""
        return self._await(self._client.describe_configs, resource)

    def incremental_alter_configs(self, resource: str | ConfigResource, changes: Mapping[str, str | None]) -> None:
        """Sets these settings of a topic, or of another `ConfigResource`, None for the broker's default; the others stay.
        Raises KafkaError INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION."""
        self._await(self._client.incremental_alter_configs, resource, changes)

    def list_config_resources(self, types: Iterable[ConfigResourceType] = ()) -> list[ConfigResource]:
        """What has settings, of these types or of all: every topic and broker, and the groups and subscriptions of client
        metrics that have settings of their own. Raises KafkaError UNSUPPORTED_VERSION before Kafka 4.1, where a broker lists
        subscriptions of client metrics alone."""
        return self._await(self._client.list_config_resources, types)

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> TokenDescription:
        """A new token of the admin's own user, or of ``owner`` ("User:alice"; Kafka 3.3), which ``renewers`` may renew and
        expire too. ``max_lifetime_ms`` -1: the broker's delegation.token.max.lifetime.ms. Raises KafkaError
        DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, INVALID_PRINCIPAL_TYPE,
        DELEGATION_TOKEN_AUTHORIZATION_FAILED."""
        return self._await(
            self._client.create_delegation_token, owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
        )

    def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Moves the end of a token to so many ms from now (-1: the broker's delegation.token.expiry.time.ms); returns it, in ms
        since 1970. Raises KafkaError DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH,
        and as `create_delegation_token`."""
        return self._await(self._client.renew_delegation_token, hmac, renew_period_ms)

    def expire_delegation_token(self, hmac: bytes, expiry_period_ms: int = -1) -> int:
        """Has a token end in so many ms (negative: now); returns when, in ms since 1970. Raises as `renew_delegation_token`."""
        return self._await(self._client.expire_delegation_token, hmac, expiry_period_ms)

    def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[TokenDescription]:
        """The tokens that the admin's user may see, by token id: all, or those of ``owners`` ("User:alice"). Raises KafkaError
        DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
        return self._await(self._client.describe_delegation_token, owners)

    def describe_client_quotas(
        self, wanted: ClientQuotaEntity = (), *, strict: bool = False
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """The quotas of each entity that has any. ``wanted``: of the entities with these types and names alone, the name "*"
        for any; ``strict``: without entities of further types. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED without the
        right to DESCRIBE_CONFIGS of the cluster."""
        return self._await(self._client.describe_client_quotas, wanted, strict=strict)

    def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        errors: dict[ClientQuotaEntity, KafkaError] | None = None,
    ) -> None:
        """Sets quotas of each entity, or removes them (None). An entity has the type user, client-id, or both, or ip, each
        with a name, or None for the default of all. Raises the KafkaError of the first entity that is refused, and then the
        others are altered: INVALID_REQUEST; CLUSTER_AUTHORIZATION_FAILED without the right to ALTER_CONFIGS of the cluster.
        With ``errors`` each that is refused is put there with its error instead."""
        self._await(self._client.alter_client_quotas, changes, errors=errors)

    def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[PartitionLike] | None = None,
        *,
        errors: dict[TopicPartition, KafkaError] | None = None,
    ) -> dict[TopicPartition, SharePartitionOffset]:
        """Where a share group is in its partitions, or in ``partitions``; without those where it has
        not read yet; of a group that does not exist none. Raises the KafkaError of the first partition with one; with
        ``errors`` each of these is put there with its error, and the others are returned."""
        return self._await(self._client.list_share_group_offsets, group_id, partitions, errors=errors)

    def alter_share_group_offsets(
        self, group_id: str, offsets: ByPartition[int], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> None:
        """Sets the start offsets of a share group without members; the group is created where there is none. Records before
        them are not delivered again, those behind them are, whatever had been acknowledged. Raises KafkaError
        NON_EMPTY_GROUP; UNKNOWN_TOPIC_OR_PARTITION of the first partition with one, and then the others are set;
        ``errors`` as in `list_share_group_offsets`."""
        self._await(self._client.alter_share_group_offsets, group_id, offsets, errors=errors)

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> None:
        """Deletes what a share group without members has of these topics: start offsets and the states of records. Raises
        KafkaError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; UNKNOWN_TOPIC_OR_PARTITION of the first topic with one, and then the
        others are deleted; ``errors`` receives each of these topics with its error."""
        self._await(self._client.delete_share_group_offsets, group_id, topics, errors=errors)

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        duration_ms: int = -1,
        pattern: str | None = None,
        errors: dict[Node, KafkaError] | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that every coordinator knows, by name: all, or those in one of ``states``
        (`TransactionState`, or its text), of these producer ids, open for longer than ``duration_ms`` (Kafka 3.8), whose name
        as a whole matches ``pattern`` (RE2; Kafka 4.1). ``errors`` as in `list_groups`."""
        return self._await(
            self._client.list_transactions,
            states,
            producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
            errors=errors,
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, TransactionDescription]:
        """Each transactional id as its coordinator has it. Raises KafkaError TRANSACTIONAL_ID_NOT_FOUND,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED of the first with one; with ``errors`` each of these is put there with its error,
        and the others are returned."""
        return self._await(self._client.describe_transactions, transactional_ids, errors=errors)

    def describe_producers(
        self, partitions: Iterable[PartitionLike], *, errors: dict[TopicPartition, KafkaError] | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers that the log of each partition knows, by the partition's leader. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION of the first partition with one; ``errors`` as in `list_offsets`."""
        return self._await(self._client.describe_producers, partitions, errors=errors)

    def abort_transaction(
        self, partition: PartitionLike, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Ends the open transaction of a producer in one partition, whatever its coordinator has of it: for one that hangs,
        which no coordinator knows. The epochs are those of `describe_producers`. Raises KafkaError
        UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, CLUSTER_AUTHORIZATION_FAILED."""
        self._await(self._client.abort_transaction, partition, producer_id, producer_epoch, coordinator_epoch)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, tuple[int, int]]:
        """Fences the producers of these transactional ids, and aborts what they have open; returns the producer id and the
        epoch after it, by transactional id. Raises KafkaError TRANSACTIONAL_ID_AUTHORIZATION_FAILED of the first with one;
        ``errors`` as in `describe_transactions`."""
        return self._await(self._client.fence_producers, transactional_ids, errors=errors)

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, dict[str, int]]:
        """The iterations by mechanism of each user, or of ``users``. No salts, no keys. Raises KafkaError RESOURCE_NOT_FOUND
        of the first of ``users`` without a credential, and then ``errors`` receives each of these;
        CLUSTER_AUTHORIZATION_FAILED."""
        return self._await(self._client.describe_user_scram_credentials, users, errors=errors)

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        errors: dict[str, KafkaError] | None = None,
    ) -> None:
        """Adds, changes and removes credentials of users. The broker receives salted passwords alone. Raises the KafkaError
        of the first user with one, and then the others are altered: RESOURCE_NOT_FOUND for a credential that is not there,
        DUPLICATE_RESOURCE for a user's mechanism named twice, UNACCEPTABLE_CREDENTIAL, CLUSTER_AUTHORIZATION_FAILED. With
        ``errors`` each of these users is put there with the error."""
        self._await(self._client.alter_user_scram_credentials, alterations, errors=errors)
