"""One handler per API: from a request to its answer, or to a `Pending` when it has to wait. The table is by api key."""

from __future__ import annotations

from coterie.broker.handlers.cluster import (
    handle_api_versions,
    handle_describe_cluster,
    handle_find_coordinator,
    handle_metadata,
)
from coterie.broker.handlers.configs import handle_describe_configs, handle_incremental_alter_configs
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
from coterie.broker.handlers.offsets import handle_offset_commit, handle_offset_delete, handle_offset_fetch
from coterie.broker.handlers.records import (
    handle_delete_records,
    handle_list_offsets,
    handle_offset_for_leader_epoch,
    handle_produce,
)
from coterie.broker.handlers.topics import (
    handle_create_partitions,
    handle_create_topics,
    handle_delete_topics,
)
from coterie.broker.handlers.transactions import (
    handle_add_offsets_to_txn,
    handle_add_partitions_to_txn,
    handle_end_txn,
    handle_init_producer_id,
    handle_txn_offset_commit,
    handle_write_txn_markers,
)
from coterie.broker.server import Handler

HANDLERS: dict[int, Handler] = {
    0: handle_produce,
    1: handle_fetch,
    2: handle_list_offsets,
    3: handle_metadata,
    8: handle_offset_commit,
    9: handle_offset_fetch,
    10: handle_find_coordinator,
    11: handle_join_group,
    12: handle_heartbeat,
    13: handle_leave_group,
    14: handle_sync_group,
    15: handle_describe_groups,
    16: handle_list_groups,
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
    32: handle_describe_configs,
    37: handle_create_partitions,
    42: handle_delete_groups,
    44: handle_incremental_alter_configs,
    47: handle_offset_delete,
    60: handle_describe_cluster,
    30000: handle_explain_group,
}
