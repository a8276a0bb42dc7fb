"""group.protocol: which membership a consumer has, and which settings do not go with it."""

from __future__ import annotations

from collections.abc import Callable

from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.classic_membership import ClassicMembership
from coterie.client.consumer.consumer_membership import ConsumerMembership
from coterie.client.consumer.membership import Membership


def make_membership(cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> Membership:
    """By the setting group.protocol. ``tell_poll()`` is called when a poll has something to do. Raises ConfigError."""
    is_consumer = cluster.settings.group_protocol == "consumer"
    kind = ConsumerMembership if is_consumer else ClassicMembership
    return kind(cluster, group_id, tell_poll)
