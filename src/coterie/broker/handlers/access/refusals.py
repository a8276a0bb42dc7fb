"""The response to a request that is refused as a whole, with the error where the API has it (Kafka's getErrorResponse)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.broker.handlers.access.access import Result
from coterie.broker.requests.calls import CannotRespond
from coterie.broker.share_state.state_requests import refused_row, response_to, rows_of
from coterie.coordinator.refusals import response_with
from coterie.wire import declaration
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.brokers import leader_and_isr, stop_replica
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownResponse
from coterie.wire.messages.brokers.unregister_broker import UnregisterBrokerResponse
from coterie.wire.messages.brokers.unregister_controller import UnregisterControllerResponse
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataResponse
from coterie.wire.messages.clients.list_clients import ListClientsResponse
from coterie.wire.messages.groups.explain_group import ExplainGroupResponse
from coterie.wire.messages.logs import alter_replica_log_dirs
from coterie.wire.messages.logs.describe_log_dirs import DescribeLogDirsResponse
from coterie.wire.messages.logs.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from coterie.wire.messages.security import alter_user_scram_credentials, describe_user_scram_credentials
from coterie.wire.messages.security.create_acls import AclCreationResult, CreateAclsResponse
from coterie.wire.messages.security.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from coterie.wire.messages.security.describe_acls import DescribeAclsResponse
from coterie.wire.messages.settings.alter_client_quotas import AlterClientQuotasResponse, AlteredEntry
from coterie.wire.messages.settings.describe_client_quotas import DescribeClientQuotasResponse
from coterie.wire.messages.settings.list_config_resources import ListConfigResourcesResponse
from coterie.wire.messages.settings.update_features import UpdateFeaturesResponse
from coterie.wire.messages.share.share_acknowledge import ShareAcknowledgeResponse
from coterie.wire.messages.share.share_fetch import ShareFetchResponse
from coterie.wire.messages.topics import alter_partition_reassignments, elect_leaders, list_partition_reassignments
from coterie.wire.messages.transactions import add_partitions_to_txn, write_txn_markers
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnResponse
from coterie.wire.messages.transactions.add_partitions_to_txn import transactions_of
from coterie.wire.messages.transactions.end_txn import EndTxnResponse
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdResponse

_Refuse = Callable[[Any, int, ErrorCode], declaration.Message]


def refused(request: Any, version: int, code: ErrorCode) -> Result:
    """The response to a request of an API that `checks` may refuse as a whole."""
    refuse = _REFUSALS.get(request.api_key)
    return response_with(request, code) if refuse is None else refuse(request, version, code)


def _produce(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    """Raises CannotRespond where the client reads no response."""
    if request.acks == 0:
        raise CannotRespond(f"a Produce with acks=0 failed: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(p.index, code, error_message=code.text) for p in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _leader_and_isr(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    states = [(state.topic_name, state) for state in request.ungrouped_partition_states]
    states += [(topic.topic_name, state) for topic in request.topic_states for state in topic.partition_states]
    errors = [leader_and_isr.LeaderAndIsrPartitionError(name, state.partition_index, code) for name, state in states]
    return leader_and_isr.LeaderAndIsrResponse(code, errors)


def _stop_replica(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    stopped = [(partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions]
    stopped += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    stopped += [(topic.topic_name, p.partition_index) for topic in request.topic_states for p in topic.partition_states]
    errors = [stop_replica.StopReplicaPartitionError(name, index, code) for name, index in stopped]
    return stop_replica.StopReplicaResponse(code, errors)


def _add_partitions(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    if version >= add_partitions_to_txn.SEVERAL_FROM:
        return add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=code)
    (transaction,) = transactions_of(request, version)
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                topic.name,
                [add_partitions_to_txn.AddPartitionsToTxnPartitionResult(p, code) for p in topic.partitions],
            )
            for topic in transaction.topics
        ]
    )


def _write_markers(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    return write_txn_markers.WriteTxnMarkersResponse(
        markers=[
            write_txn_markers.WritableTxnMarkerResult(
                marker.producer_id,
                [
                    write_txn_markers.WritableTxnMarkerTopicResult(
                        topic.name,
                        [write_txn_markers.WritableTxnMarkerPartitionResult(p, code) for p in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _alter_log_dirs(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic.name,
                [alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(p, code) for p in topic.partitions],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _elect_leaders(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    rows = [
        elect_leaders.ReplicaElectionResult(
            topic.topic, [elect_leaders.PartitionResult(p, code, code.text) for p in topic.partitions]
        )
        for topic in request.topic_partitions or ()
    ]
    return elect_leaders.ElectLeadersResponse(error_code=code, replica_election_results=rows)


def _alter_reassignments(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    messages = alter_partition_reassignments
    rows = [
        messages.ReassignableTopicResponse(
            topic.name,
            [messages.ReassignablePartitionResponse(p.partition_index, code, code.text) for p in topic.partitions],
        )
        for topic in request.topics
    ]
    return messages.AlterPartitionReassignmentsResponse(error_code=code, error_message=code.text, responses=rows)


def _list_reassignments(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    messages = list_partition_reassignments
    topics = [
        messages.OngoingTopicReassignment(
            topic.name, [messages.OngoingPartitionReassignment(p) for p in topic.partition_indexes]
        )
        for topic in request.topics or ()
    ]
    return messages.ListPartitionReassignmentsResponse(error_code=code, error_message=code.text, topics=topics)


def _describe_scram(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    """Without a text, as in Kafka."""
    results = [
        describe_user_scram_credentials.DescribeUserScramCredentialsResult(error_code=code) for _ in request.users or ()
    ]
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(error_code=code, results=results)


def _alter_scram(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    messages = alter_user_scram_credentials
    users = sorted({change.name for change in [*request.deletions, *request.upsertions]})
    results = [messages.AlterUserScramCredentialsResult(user, code, code.text) for user in users]
    return messages.AlterUserScramCredentialsResponse(results=results)


def _alter_quotas(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    return AlterClientQuotasResponse(entries=[AlteredEntry(code, code.text, entry.entity) for entry in request.entries])


def _error_alone(response: type[Any], *, has_text: bool = False) -> _Refuse:
    """Of an API whose response has one error code, and perhaps its text."""

    def refuse(request: Any, version: int, code: ErrorCode) -> declaration.Message:
        made: declaration.Message = (
            response(error_code=code, error_message=code.text) if has_text else response(error_code=code)
        )
        return made

    return refuse


def _share_states(request: Any, version: int, code: ErrorCode) -> declaration.Message:
    return response_to(request, {key: refused_row(request, key, Refusal(code)) for key, _ in rows_of(request)})


_REFUSALS: dict[int, _Refuse] = {
    0: _produce,
    4: _leader_and_isr,
    5: _stop_replica,
    6: _error_alone(UpdateMetadataResponse),
    7: _error_alone(ControlledShutdownResponse),
    22: lambda request, version, code: InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1),
    24: _add_partitions,
    25: _error_alone(AddOffsetsToTxnResponse),
    26: _error_alone(EndTxnResponse),
    27: _write_markers,
    29: _error_alone(DescribeAclsResponse, has_text=True),
    30: lambda request, version, code: CreateAclsResponse(
        results=[AclCreationResult(code, code.text) for _ in request.creations]
    ),
    31: lambda request, version, code: DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(code, code.text) for _ in request.filters]
    ),
    34: _alter_log_dirs,
    35: _error_alone(DescribeLogDirsResponse),
    43: _elect_leaders,
    45: _alter_reassignments,
    46: _list_reassignments,
    48: lambda request, version, code: DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None),
    49: _alter_quotas,
    50: _describe_scram,
    51: _alter_scram,
    57: _error_alone(UpdateFeaturesResponse, has_text=True),
    64: _error_alone(UnregisterBrokerResponse, has_text=True),
    94: _error_alone(UnregisterControllerResponse, has_text=True),
    74: _error_alone(ListConfigResourcesResponse),
    **dict.fromkeys((83, 84, 85, 86, 87), _share_states),
    30000: _error_alone(ExplainGroupResponse),
    78: _error_alone(ShareFetchResponse),
    79: _error_alone(ShareAcknowledgeResponse),
    30001: _error_alone(ListClientsResponse),
}
