"""What blocks the upgrade of a classic group to the consumer protocol (KIP-848), and what changes with it: `UPGRADE_RULES`.

The rules of refusal are those of Kafka's coordinator (GroupMetadataManager.validateOnlineUpgrade): the policy, the size, the
protocol type, malformed bytes, a custom assignor's user data; and one that a consumer group cannot hold, a partition with two
owners. The other findings block nothing. A rule without the facts that it needs has no finding; `settings_unknown` and
`software_unknown` report what a broker does not return.
"""

from __future__ import annotations

import re
from functools import partial

from coterie.assignors import ASSIGNORS
from coterie.assignors.blobs import decode_subscription
from coterie.client.admin_types import ConsumerGroupDescription, GroupState, MemberDescription
from coterie.client.connection.handshake import SOFTWARE_NAME
from coterie.client.lint.rule import (
    GROUP_SESSION_TIMEOUT,
    MAX_SIZE,
    POLICY,
    PROTOCOLS,
    SERVER_ASSIGNORS,
    SESSION_TIMEOUT,
    LintRule,
    Observation,
    ProtocolSupport,
    member_names,
)
from coterie.text.quantity import quantity
from coterie.wire.messages.stored.consumer_protocol import ConsumerProtocolAssignment
from coterie.wire.primitives import WireError

CLIENT_SETTINGS = "session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy"
NEWEST_ASSIGNMENT = 3  # the version of the consumer protocol's assignments

# The first release of a client's software, as it names itself in ApiVersions (KIP-511), whose support of the consumer protocol
# is not a preview (release notes).
FIRST_RELEASE = {
    "apache-kafka-java": (4, 0),
    "librdkafka": (2, 12),
    "confluent-kafka-python": (2, 12),
    "confluent-kafka-go": (2, 12),
    "confluent-kafka-dotnet": (2, 12),
    "confluent-kafka-javascript": (1, 6),
    SOFTWARE_NAME: (0, 1),
}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# -- what blocks a classic group ----------------------------------------------------------------------------------------


def _not_served(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if support.serves:
        return None
    return Observation("the broker does not serve ConsumerGroupHeartbeat", "Upgrade the brokers to Apache Kafka 4.0.")


def _group_version(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if support.group_version is None or support.group_version >= 1:
        return None
    return Observation(
        f"the cluster's feature group.version is at level {support.group_version}, and the consumer protocol needs 1",
        "Run `kafka-features.sh upgrade --feature group.version=1`.",
    )


def _switched_off(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    enabled = support.settings.get(PROTOCOLS)
    if enabled is None or "consumer" in (name.strip() for name in enabled.split(",")):
        return None
    return Observation(f"the broker has {PROTOCOLS}={enabled}", f"Add consumer to {PROTOCOLS} on every broker.")


def _protocol_type(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if group.protocol_type == "consumer" or not group.members:
        return None
    text = f"its members are of type {group.protocol_type or '(none)'}, which the consumer protocol does not serve"
    return Observation(text, "Leave the group as it is.", member_names(group.members))


def _in_rebalance(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if group.state is GroupState.STABLE or not group.members:
        return None
    text = f"the group is {group.state}, and the broker does not report its subscriptions meanwhile"
    return Observation(text, "Ask again once the group is Stable.")


def policy_refuses(
    allowing: str, consequence: str, group: ConsumerGroupDescription, support: ProtocolSupport
) -> Observation | None:
    """The migration policy must be bidirectional or ``allowing``."""
    policy = support.settings.get(POLICY)
    if policy is None or policy.lower() in ("bidirectional", allowing) or not group.members:
        return None
    return Observation(
        f"the broker has {POLICY}={policy}: {consequence}",
        f"Set {POLICY}=bidirectional on every broker, or stop all members first: an empty group is always converted.",
    )


_upgrade_policy = partial(policy_refuses, "upgrade", "it converts no classic group that has members")


def too_large(setting: str, group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    """The group must fit ``setting``, the size of groups of the other protocol."""
    most = _number(support.settings.get(setting))
    if most is None or len(group.members) <= most:
        return None
    text = f"the group has {quantity(len(group.members), 'member')}, and the broker has {setting}={most}"
    return Observation(text, f"Raise {setting} on every broker, or stop members first.")


def _malformed(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if not _is_readable(group):
        return None
    broken = [m for m in group.members if not _is_subscription(m) or _assignment(m) is None]
    if not broken:
        return None
    text = "the subscriptions or assignments of these members are not those of Kafka's consumer"
    return Observation(text, "Restart these members with Kafka's own assignors.", member_names(broken))


def _user_data_in_assignments(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if not _is_readable(group):
        return None
    custom = [m for m in group.members if (assignment := _assignment(m)) is not None and assignment.user_data]
    if not custom:
        return None
    return Observation(
        f"the assignor {group.partition_assignor} adds user data to the assignments of these members",
        "Restart the members with one of Kafka's own assignors first (KIP-429); Kafka Streams stays with the classic "
        "protocol.",
        member_names(custom),
    )


def _shared_partition(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    """A partition of a consumer group has one owner."""
    if not _is_readable(group):
        return None
    owners: dict[tuple[str, int], dict[str, MemberDescription]] = {}
    for member in group.members:
        assignment = _assignment(member)
        for topic in assignment.assigned_partitions if assignment is not None else ():
            for partition in topic.partitions:
                owners.setdefault((topic.topic, partition), {})[member.member_id] = member
    shared = {partition: members for partition, members in owners.items() if len(members) > 1}
    if not shared:
        return None
    topic_name, index = min(shared)
    sharing = {member_id: member for members in shared.values() for member_id, member in members.items()}
    return Observation(
        f"the assignor {group.partition_assignor} assigns {quantity(len(shared), 'partition')} to several of these "
        f"members, {topic_name}-{index} for instance",
        "Restart the members with one of Kafka's own assignors first: a partition of a consumer group has one owner.",
        member_names([m for m in group.members if m.member_id in sharing]),
    )


def _is_readable(group: ConsumerGroupDescription) -> bool:
    return group.protocol_type == "consumer" and group.state is GroupState.STABLE


def _is_subscription(member: MemberDescription) -> bool:
    try:
        decode_subscription(member.member_metadata)
    except WireError:
        return False
    return True


def _assignment(member: MemberDescription) -> ConsumerProtocolAssignment | None:
    """A member's assignment; None where its bytes are none."""
    if not member.member_assignment:
        return ConsumerProtocolAssignment([], None)
    try:
        version = min(int.from_bytes(member.member_assignment[:2], "big"), NEWEST_ASSIGNMENT)
        return ConsumerProtocolAssignment.decode(member.member_assignment, version, 2)
    except WireError:
        return None


# -- what changes with the protocol ---------------------------------------------------------------------------------------


def _settings_unknown(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if support.settings.get(POLICY) is not None or not support.serves:
        return None
    text = f"the broker does not report its {POLICY}"
    return Observation(
        text, f"Look {POLICY} up in the brokers' settings: bidirectional (the default) allows the change."
    )


def _no_way_back(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if support.settings.get(POLICY, "").lower() != "upgrade":
        return None
    text = f"there is no way back while the group has members: the broker has {POLICY}=upgrade"
    return Observation(text, f"Set {POLICY}=bidirectional on every broker for as long as the change takes.")


def _own_assignor(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    name = group.partition_assignor
    if not name or name in ASSIGNORS:
        return None
    offered = support.settings.get(SERVER_ASSIGNORS) or "uniform,range"
    text = (
        f"the assignor {name} has no effect any more: the broker assigns, by {offered.split(',')[0]} unless requested"
    )
    return Observation(text, f"Choose one of {offered} with group.remote.assignor, and see that it fits the members.")


def _software_too_old(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    old = [m for m in group.members if speaks_consumer_protocol(support.software.get(m.member_id)) is False]
    if not old:
        return None
    named = ", ".join(sorted({support.software[m.member_id] for m in old}))
    text = (
        f"the clients of these members do not have the consumer protocol yet ({named}); they stay classic members of it"
    )
    return Observation(text, "Upgrade the clients of these members, and restart them last.", member_names(old))


def _software_unknown(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    unknown = [m for m in group.members if speaks_consumer_protocol(support.software.get(m.member_id)) is None]
    if not unknown:
        return None
    named = sorted({support.software.get(m.member_id, "") for m in unknown} - {""})
    text = "it is not known whether the clients of these members have the consumer protocol"
    return Observation(
        text + (f" ({', '.join(named)})" if named else ""),
        "Check their versions: it is complete in Apache Kafka's consumer from 4.0 on, and in librdkafka from 2.12 on.",
        member_names(unknown),
    )


def speaks_consumer_protocol(software: str | None) -> bool | None:
    """Whether a client's software ("NAME VERSION") has the consumer protocol; None where that is not known."""
    name, _, version = (software or "").partition(" ")
    release = re.match(r"(\d+)\.(\d+)", version)
    if name not in FIRST_RELEASE or release is None:
        return None
    return (int(release[1]), int(release[2])) >= FIRST_RELEASE[name]


def _settings_refused(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    if not group.members:
        return None
    broker_ms = _number(support.group_settings.get(GROUP_SESSION_TIMEOUT, support.settings.get(SESSION_TIMEOUT)))
    others = [m for m in group.members if support.session_timeouts_ms.get(m.member_id, broker_ms) != broker_ms]
    text = f"consumers of the consumer protocol do not take {CLIENT_SETTINGS}: the broker decides"
    if others and broker_ms is not None:
        text += f"; its session timeout is {broker_ms} ms, and that of these members another one"
    return Observation(
        text,
        f"Remove them from the consumers' settings; set the group's {GROUP_SESSION_TIMEOUT} where another one is needed.",
        member_names(others) if broker_ms is not None else (),
    )


def _static_members(group: ConsumerGroupDescription, support: ProtocolSupport) -> Observation | None:
    static = [m for m in group.members if m.group_instance_id is not None]
    if not static:
        return None
    text = "these members are static, and keep their partitions over the restart"
    return Observation(
        text, "Keep the group.instance.id of each, and restart it within its session timeout.", member_names(static)
    )


UPGRADE_RULES = (
    LintRule("not_served", True, "The broker does not have the consumer protocol.", _not_served),
    LintRule("group_version", True, "The cluster's feature `group.version` is below 1.", _group_version),
    LintRule("switched_off", True, f"`{PROTOCOLS}` is without `consumer`.", _switched_off),
    LintRule(
        "protocol_type", True, "The members are no consumers, but for instance workers of Connect.", _protocol_type
    ),
    LintRule("in_rebalance", True, "The group is not Stable, and cannot be judged.", _in_rebalance),
    LintRule("upgrade_policy", True, f"`{POLICY}` is without upgrades.", _upgrade_policy),
    LintRule("too_large", True, f"The group has more members than `{MAX_SIZE}`.", partial(too_large, MAX_SIZE)),
    LintRule("malformed", True, "Subscriptions or assignments that are not those of consumers.", _malformed),
    LintRule("user_data", True, "A custom assignor's user data in assignments.", _user_data_in_assignments),
    LintRule("shared_partition", True, "A partition is assigned to several members.", _shared_partition),
    LintRule("settings_unknown", False, f"The broker does not report `{POLICY}`.", _settings_unknown),
    LintRule("no_way_back", False, f"`{POLICY}` is without downgrades.", _no_way_back),
    LintRule("own_assignor", False, "An assignor that is not one of Kafka's loses its effect.", _own_assignor),
    LintRule("software_too_old", False, "Members whose clients do not have the protocol.", _software_too_old),
    LintRule("software_unknown", False, "Members whose clients are not known.", _software_unknown),
    LintRule("settings_refused", False, "Consumers' settings without effect.", _settings_refused),
    LintRule("static_members", False, "Static members, which keep their partitions.", _static_members),
)
