"""One handler per API: it returns the response, or a `Pending` where the request has to wait. The table is by api key."""

from __future__ import annotations

from coterie.broker.handlers.acls import handle_create_acls, handle_delete_acls, handle_describe_acls
from coterie.broker.handlers.alter_configs import handle_alter_configs, handle_incremental_alter_configs
from coterie.broker.handlers.cluster import (
    handle_api_versions,
    handle_describe_cluster,
    handle_find_coordinator,
    handle_metadata,
    handle_unregister_broker,
)
from coterie.broker.handlers.configs import handle_describe_configs, handle_list_config_resources
from coterie.broker.handlers.consumer_groups import handle_consumer_group_describe, handle_consumer_group_heartbeat
from coterie.broker.handlers.control import (
    handle_controlled_shutdown,
    handle_leader_and_isr,
    handle_stop_replica,
    handle_update_metadata,
)
from coterie.broker.handlers.delegation_tokens import (
    handle_create_delegation_token,
    handle_describe_delegation_token,
    handle_expire_delegation_token,
    handle_renew_delegation_token,
)
from coterie.broker.handlers.delete_records import handle_delete_records
from coterie.broker.handlers.features import handle_update_features
from coterie.broker.handlers.fetch import handle_fetch
from coterie.broker.handlers.groups import (
    handle_delete_groups,
    handle_describe_groups,
    handle_explain_group,
    handle_heartbeat,
    handle_join_group,
    handle_leave_group,
    handle_list_groups,
    handle_sync_group,
)
from coterie.broker.handlers.log_dirs import handle_alter_replica_log_dirs, handle_describe_log_dirs
from coterie.broker.handlers.offsets import handle_offset_commit, handle_offset_delete, handle_offset_fetch
from coterie.broker.handlers.quotas import handle_alter_client_quotas, handle_describe_client_quotas
from coterie.broker.handlers.records import (
    handle_list_offsets,
    handle_offset_for_leader_epoch,
    handle_produce,
)
from coterie.broker.handlers.replicas import (
    handle_alter_partition_reassignments,
    handle_elect_leaders,
    handle_list_partition_reassignments,
)
from coterie.broker.handlers.sasl import handle_sasl_authenticate, handle_sasl_handshake
from coterie.broker.handlers.scram import handle_alter_user_scram_credentials, handle_describe_user_scram_credentials
from coterie.broker.handlers.telemetry import handle_get_telemetry_subscriptions, handle_push_telemetry
from coterie.broker.handlers.topic_partitions import handle_describe_topic_partitions
from coterie.broker.handlers.topics import (
    handle_create_partitions,
    handle_create_topics,
    handle_delete_topics,
)
from coterie.broker.handlers.transaction_views import (
    handle_describe_producers,
    handle_describe_transactions,
    handle_list_transactions,
)
from coterie.broker.handlers.transactions import (
    handle_add_offsets_to_txn,
    handle_add_partitions_to_txn,
    handle_end_txn,
    handle_init_producer_id,
    handle_txn_offset_commit,
    handle_write_txn_markers,
)
from coterie.broker.services import Handler

HANDLERS: dict[int, Handler] = {
    0: handle_produce,
    1: handle_fetch,
    2: handle_list_offsets,
    3: handle_metadata,
    4: handle_leader_and_isr,
    5: handle_stop_replica,
    6: handle_update_metadata,
    7: handle_controlled_shutdown,
    8: handle_offset_commit,
    9: handle_offset_fetch,
    10: handle_find_coordinator,
    11: handle_join_group,
    12: handle_heartbeat,
    13: handle_leave_group,
    14: handle_sync_group,
    15: handle_describe_groups,
    16: handle_list_groups,
    17: handle_sasl_handshake,
    18: handle_api_versions,
    19: handle_create_topics,
    20: handle_delete_topics,
    21: handle_delete_records,
    22: handle_init_producer_id,
    23: handle_offset_for_leader_epoch,
    24: handle_add_partitions_to_txn,
    25: handle_add_offsets_to_txn,
    26: handle_end_txn,
    27: handle_write_txn_markers,
    28: handle_txn_offset_commit,
    29: handle_describe_acls,
    30: handle_create_acls,
    31: handle_delete_acls,
    32: handle_describe_configs,
    33: handle_alter_configs,
    34: handle_alter_replica_log_dirs,
    35: handle_describe_log_dirs,
    36: handle_sasl_authenticate,
    37: handle_create_partitions,
    38: handle_create_delegation_token,
    39: handle_renew_delegation_token,
    40: handle_expire_delegation_token,
    41: handle_describe_delegation_token,
    42: handle_delete_groups,
    43: handle_elect_leaders,
    44: handle_incremental_alter_configs,
    45: handle_alter_partition_reassignments,
    46: handle_list_partition_reassignments,
    47: handle_offset_delete,
    48: handle_describe_client_quotas,
    49: handle_alter_client_quotas,
    50: handle_describe_user_scram_credentials,
    51: handle_alter_user_scram_credentials,
    57: handle_update_features,
    60: handle_describe_cluster,
    61: handle_describe_producers,
    64: handle_unregister_broker,
    65: handle_describe_transactions,
    66: handle_list_transactions,
    68: handle_consumer_group_heartbeat,
    69: handle_consumer_group_describe,
    71: handle_get_telemetry_subscriptions,
    72: handle_push_telemetry,
    74: handle_list_config_resources,
    75: handle_describe_topic_partitions,
    30000: handle_explain_group,
}
