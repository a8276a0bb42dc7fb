"""Rules of the group coordinator and of committed offsets."""

from __future__ import annotations

from coterie.certify.question import Value
from coterie_conformance.certify.rule import (
    CertifyRule,
    ask,
    commit,
    committed,
    group_state,
    heartbeat,
    join,
    member,
    stable,
    sync,
    topic,
)

_SUBJECT = "Consumer groups"
_OFFSETS = "Committed offsets"
# A version 1 subscription to topic "t" that ends after its user data: the owned partitions are missing.
_CUT_SUBSCRIPTION: Value = {"@": "subscription", "topics": ["$t"], "version": 0, "claims": 1}


def _leave(name: str, of: str, group_instance_id: str | None = None) -> Value:
    who = {"member_id": member(of), "group_instance_id": group_instance_id}
    return ask(name, "LeaveGroup", 4, group_id="$g", members=[who])


def _delete_group(name: str, group: str = "$g") -> Value:
    return ask(name, "DeleteGroups", 2, groups_names=[group])


def _delete_offset(name: str) -> Value:
    topics = [{"name": "$t", "partitions": [{"partition_index": 0}]}]
    return ask(name, "OffsetDelete", 0, group_id="$g", topics=topics)


GROUP_RULES = (
    CertifyRule(
        "member-id-required",
        _SUBJECT,
        "A member without an id is given one and joins with it",
        "KIP-394",
        (join("first"), join("joined", "first"), group_state("group")),
    ),
    CertifyRule(
        "old-join-at-once",
        _SUBJECT,
        "Before JoinGroup v4 a member without an id joins at once",
        "KIP-394",
        (join("joined", version=3), group_state("group")),
    ),
    CertifyRule(
        "leader-assigns",
        _SUBJECT,
        "The leader's SyncGroup makes the group stable and gives each member its share",
        "KIP-62",
        (*topic(), *stable(), group_state("group"), heartbeat("alive", "joined")),
    ),
    CertifyRule(
        "generation-checked",
        _SUBJECT,
        "Another generation is refused by Heartbeat, SyncGroup and OffsetCommit",
        "GroupCoordinator",
        (
            *topic(),
            *stable(),
            heartbeat("later heartbeat", "joined", 2),
            sync("later sync", "joined", 2),
            commit("later commit", of="joined", generation=2),
        ),
    ),
    CertifyRule(
        "member-checked",
        _SUBJECT,
        "A member that the group does not know is refused",
        "GroupCoordinator",
        (
            *stable(),
            heartbeat("stranger's heartbeat", "joined", member_id="nobody"),
            sync("stranger's sync", "joined", member_id="nobody"),
            join("stranger's join", member_id="nobody"),
        ),
    ),
    CertifyRule(
        "session-timeout-bounds",
        _SUBJECT,
        "A session timeout outside the broker's bounds is refused",
        "group.min.session.timeout.ms",
        (join("too short", session_timeout_ms=1), join("too long", session_timeout_ms=2**31 - 1)),
    ),
    CertifyRule(
        "empty-group-id",
        _SUBJECT,
        "An empty group id is refused",
        "GroupCoordinator.validateGroupId",
        (join("nameless", group_id=""), heartbeat("beat", "nameless", group_id="")),
    ),
    CertifyRule(
        "protocols-agree",
        _SUBJECT,
        "A member whose protocols do not fit the group's is refused",
        "GroupCoordinator",
        (
            *stable(),
            join("other type", protocol_type="connect"),
            join("other protocol", protocols=[{"name": "other", "metadata": ""}]),
            join("no protocol", protocols=[]),
        ),
    ),
    CertifyRule(
        "rejoin-same-generation",
        _SUBJECT,
        "A leader that joins again starts a rebalance, and the generation rises",
        "GroupCoordinator",
        (*stable(), join("again", "joined"), heartbeat("old generation", "joined"), sync("again synced", "joined", 2)),
    ),
    CertifyRule(
        "late-member-removed",
        _SUBJECT,
        "A member that does not join within the rebalance timeout is removed",
        "KIP-62",
        (
            *stable(rebalance_timeout_ms=500),
            join("other first", connection="other", rebalance_timeout_ms=500),
            join("other joined", "other first", connection="other", rebalance_timeout_ms=500),
            heartbeat("removed", "joined"),
            group_state("group"),
        ),
    ),
    CertifyRule(
        "static-member-returns",
        _SUBJECT,
        "A static member that starts again keeps its share without a rebalance; its old id is fenced",
        "KIP-345",
        (
            *topic(),
            *stable("$i"),
            join("restarted", group_instance_id="$i"),
            heartbeat("old id", "joined", group_instance_id="$i"),
            heartbeat("new id", "restarted", group_instance_id="$i"),
            group_state("group"),
        ),
    ),
    CertifyRule(
        "leaving-empties",
        _SUBJECT,
        "The last member's LeaveGroup empties the group",
        "GroupCoordinator",
        (*stable(), _leave("left", "joined"), group_state("group"), _leave("left twice", "joined")),
    ),
    CertifyRule(
        "static-leave-by-instance",
        _SUBJECT,
        "A static member is removed by its instance id alone",
        "KIP-345",
        (
            *stable("$i"),
            ask("left", "LeaveGroup", 4, group_id="$g", members=[{"member_id": "", "group_instance_id": "$i"}]),
            group_state("group"),
        ),
    ),
    CertifyRule(
        "delete-group",
        _SUBJECT,
        "A group is deleted when it is empty, and only then",
        "KIP-229",
        (
            *topic(),
            *stable(),
            _delete_group("in use"),
            _leave("left", "joined"),
            _delete_group("empty"),
            _delete_group("gone"),
            group_state("group"),
        ),
    ),
    CertifyRule(
        "unknown-group",
        _SUBJECT,
        "An unknown group is described as dead",
        "GroupCoordinator",
        (group_state("group", "$nowhere"), heartbeat("beat", "beat", group_id="$nowhere", member_id="m")),
    ),
    CertifyRule(
        "coordinator-kinds",
        _SUBJECT,
        "FindCoordinator knows groups and transactions, and refuses other kinds",
        "FindCoordinator",
        (
            ask("group", "FindCoordinator", 3, key="$g", key_type=0),
            ask("transaction", "FindCoordinator", 3, key="$x", key_type=1),
            ask("other", "FindCoordinator", 3, key="$g", key_type=5),
        ),
    ),
)

OFFSET_RULES = (
    CertifyRule(
        "commit-without-group",
        _OFFSETS,
        "Offsets are committed without membership while the group is empty",
        "GroupMetadata",
        (*topic(), commit("simple", 1), committed("fetched"), group_state("group")),
    ),
    CertifyRule(
        "commit-beside-members",
        _OFFSETS,
        "A commit without membership is refused while the group has members",
        "GroupMetadata.validateOffsetCommit",
        (*topic(), *stable(), commit("simple", 1), commit("member's", 2, "joined", 1), committed("fetched")),
    ),
    CertifyRule(
        "no-offset",
        _OFFSETS,
        "A partition without a committed offset has -1 and no error",
        "OffsetFetch",
        (*topic(), committed("fetched"), committed("everything", topics=None)),
    ),
    CertifyRule(
        "metadata-too-large",
        _OFFSETS,
        "Metadata beyond offset.metadata.max.bytes is refused for its partition alone",
        "offset.metadata.max.bytes",
        (
            *topic(partitions=2),
            commit(
                "one large",
                topics=[
                    {
                        "name": "$t",
                        "partitions": [
                            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "small"},
                            {
                                "partition_index": 1,
                                "committed_offset": 1,
                                "committed_metadata": {"@": "text", "of": "m", "times": 5000},
                            },
                        ],
                    }
                ],
            ),
            committed("fetched", topics=[{"name": "$t", "partition_indexes": [0, 1]}]),
        ),
    ),
    CertifyRule(
        "delete-offsets",
        _OFFSETS,
        "Offsets of topics that the group still reads are kept, others are deleted",
        "KIP-496",
        (
            *topic(),
            *stable(),
            commit("member's", 1, "joined", 1),
            _delete_offset("subscribed"),
            _leave("left", "joined"),
            _delete_offset("empty"),
            committed("fetched"),
        ),
    ),
    CertifyRule(
        "cut-subscription",
        _OFFSETS,
        "A subscription that ends after its user data is read, whatever version it names",
        "ConsumerProtocol",
        (
            *topic(),
            join("first", protocols=[{"name": "range", "metadata": _CUT_SUBSCRIPTION}]),
            join("joined", "first", protocols=[{"name": "range", "metadata": _CUT_SUBSCRIPTION}]),
            sync("synced", "joined"),
            commit("member's", 1, "joined", 1),
            _delete_offset("subscribed"),
        ),
    ),
)
