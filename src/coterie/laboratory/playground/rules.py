"""The rule behind each event: its source (a KIP, or the class that has it), and the scenario of `tests/spec` that holds it.

The sentence of a rule is the text ``rule.NAME`` of texts.json.
"""

from __future__ import annotations

from typing import NamedTuple


class PlayedRule(NamedTuple):
    """``file`` is in tests/spec, ``scenario`` the first word of a title there."""

    source: str
    file: str
    scenario: str


_CONNECTOR, _REBALANCE = "ZookeeperConsumerConnector", "RebalanceImpl"
RULES: dict[str, PlayedRule] = {
    "member_id": PlayedRule("KIP-394", "join.txt", "testJoinGroupUnknownConsumerNewGroup"),
    "initial_delay": PlayedRule(
        "KIP-134", "initial_delay.txt", "shouldResetRebalanceDelayWhenNewMemberJoinsGroupInInitialRebalance"
    ),
    "join": PlayedRule("GroupCoordinator", "join.txt", "testValidJoinGroup"),
    "generation": PlayedRule("GroupCoordinator", "join.txt", "testGenerationIdIncrementsOnRebalance"),
    "sync": PlayedRule("GroupCoordinator", "sync.txt", "testSyncGroupLeaderAfterFollower"),
    "heartbeat": PlayedRule("GroupCoordinator", "heartbeat.txt", "testHeartbeatRebalanceInProgress"),
    "leave": PlayedRule("GroupCoordinator, KIP-800", "leave.txt", "testValidLeaveGroup"),
    "session": PlayedRule("KIP-62", "timers.txt", "testSessionTimeout"),
    "poll_interval": PlayedRule("KIP-62", "member/heartbeat.txt", "testPollTimeout"),
    "rebalance_timeout": PlayedRule("KIP-62", "rejoin.txt", "testCompleteJoinRemoveNotYetRejoinedDynamicMembers"),
    "sync_timeout": PlayedRule("KIP-752", "timers.txt", "testRebalanceTimesOutWhenSyncRequestIsNotReceived"),
    "static": PlayedRule("KIP-345", "static_members.txt", "testOnLeaderElectedShouldSkipAssignment"),
    "static_member": PlayedRule("KIP-345", "member/static_members.txt", "a_restarted_static_member"),
    "leader": PlayedRule("ConsumerCoordinator", "member/leader.txt", "testMetadataChangeTriggersRebalance"),
    "commit": PlayedRule("GroupCoordinator", "offsets.txt", "testFetchOffsets"),
    "eager": PlayedRule("ConsumerCoordinator", "member/rebalance.txt", "testOnAssignment"),
    "cooperative": PlayedRule("KIP-429", "member/rebalance.txt", "a_cooperative_rebalance"),
    "consumer_heartbeat": PlayedRule("KIP-848", "consumer/heartbeat.txt", "testConsumerGroupHeartbeatFullResponse"),
    "epoch": PlayedRule("KIP-848", "consumer/heartbeat.txt", "testUnknownMemberIdJoinsConsumerGroup"),
    "target": PlayedRule("KIP-848", "consumer/reconciliation.txt", "testReconciliationOfThreeMembers"),
    "reconcile": PlayedRule("KIP-848", "consumer/reconciliation.txt", "testReconciliationProcess"),
    "consumer_session": PlayedRule("KIP-848", "consumer/timers.txt", "testSessionTimeoutExpiration"),
    "consumer_leave": PlayedRule("KIP-848", "consumer/leave.txt", "testMemberLeaves"),
    "consumer_static": PlayedRule("KIP-848", "consumer/leave.txt", "testStaticMemberGetsBackAssignmentUponRejoin"),
    "zk_watch": PlayedRule(_CONNECTOR, "zookeeper/rebalance.txt", "everyone_with_the_same_topic_rebalances"),
    "zk_register": PlayedRule(_CONNECTOR, "zookeeper/rebalance.txt", "threads_share_five_partitions"),
    "zk_steps": PlayedRule(_CONNECTOR, "zookeeper/rebalance.txt", "five_steps_in_their_order"),
    "zk_release": PlayedRule(
        _CONNECTOR, "zookeeper/rebalance.txt", "a_closed_consumer_commits_and_releases_before_it_goes"
    ),
    "zk_retries": PlayedRule(_CONNECTOR, "zookeeper/rebalance.txt", "gives_up_after_four_attempts"),
    "rmq_circle": PlayedRule(_REBALANCE, "rocketmq/rebalance.txt", "eight_queues_three_clients"),
    "rmq_notice": PlayedRule(_REBALANCE, "rocketmq/rebalance.txt", "a_client_comes_and_everyone_is_told"),
    "rmq_period": PlayedRule(_REBALANCE, "rocketmq/rebalance.txt", "twenty_seconds_without_a_notice"),
    "rmq_heartbeat": PlayedRule(
        "ConsumerManager", "rocketmq/rebalance.txt", "a_vanished_client_is_missed_after_two_minutes"
    ),
    "rmq_leave": PlayedRule("ConsumerManager", "rocketmq/rebalance.txt", "a_closed_client_says_goodbye"),
    "rmq_duplicates": PlayedRule(_REBALANCE, "rocketmq/rebalance.txt", "the_duplicate_window"),
    "rmq_lock": PlayedRule("RebalanceLockManager", "rocketmq/rebalance.txt", "orderly_consumption_waits_for_the_lock"),
}

# What is sent, by the name of its class without Request and Response; of a script by its effect's.
OF_MESSAGES = {
    "JoinGroup": "join",
    "SyncGroup": "sync",
    "Heartbeat": "heartbeat",
    "LeaveGroup": "leave",
    "OffsetCommit": "commit",
    "ConsumerGroupHeartbeat": "consumer_heartbeat",
}
OF_ZOOKEEPER = {
    "Create": "zk_register",
    "Write": "commit",
    "Delete": "zk_release",
    "Read": "zk_steps",
    "ReadEach": "zk_steps",
    "Multi": "zk_steps",
    "CheckVersion": "zk_steps",
    "List": "zk_watch",
    "notice": "zk_watch",
    "owns": "zk_steps",
}
OF_ROCKETMQ = {
    "FetchRoute": "rmq_circle",
    "FindConsumers": "rmq_period",
    "Heartbeat": "rmq_heartbeat",
    "Unregister": "rmq_leave",
    "PullFrom": "rmq_duplicates",
    "PersistOffsets": "rmq_duplicates",
    "Lock": "rmq_lock",
    "Unlock": "rmq_lock",
    "notice": "rmq_notice",
    "owns": "rmq_circle",
}

# Lines of the journal: by the kind of their first cause, else by their event.
_OF_CAUSES = {
    "session_timeout": "session",
    "rebalance_timeout": "rebalance_timeout",
    "sync_timeout": "sync_timeout",
    "static_member_returned": "static",
    "member_replaced": "static",
    "member_left": "leave",
    "leader_rejoined": "leader",
    "topic_metadata_changed": "leader",
}
_OF_EVENTS = {
    "id_reserved": "member_id",
    "id_dropped": "member_id",
    "join_extended": "initial_delay",
    "generation_formed": "generation",
    "stable": "sync",
    "epoch_raised": "epoch",
    "target_computed": "target",
    "member_revokes": "reconcile",
    "member_reconciled": "reconcile",
}
_OF_CONSUMERS = {
    "session": "consumer_session",
    "leave": "consumer_leave",
    "static": "consumer_static",
    "leader": "epoch",
}


def rule_of_line(event: str, cause: str, reason: str, *, is_consumer: bool) -> str:
    """The name of the rule by which a line of the journal was written. ``cause`` and ``reason``: of its first cause."""
    of_cause = "poll_interval" if "max.poll.interval.ms" in reason else _OF_CAUSES.get(cause, "join")
    name = _OF_EVENTS.get(event, of_cause)
    return _OF_CONSUMERS.get(name, "epoch" if name == "join" else name) if is_consumer else name
