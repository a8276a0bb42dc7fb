"""A member of a share group (KIP-932): the broker assigns partitions, which other members may have too, so that nothing is
revoked with a callback and nothing is lost. And the settings of a share consumer (Kafka's ShareConsumerConfig): those of a
consumer, without what is the group's."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Mapping

from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.consumer_membership import ConsumerMembership
from coterie.client.errors import ConfigError
from coterie.client.settings.protocols import SHARE_PROTOCOL, require_allowed
from coterie.client.settings.settings import CLIENT_SETTINGS, ClientSettings, read_client_settings
from coterie.client.types import TopicPartition
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer.decision import ConsumerEffect
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import Assigned, Effect, Revoke


def share_member_config(settings: ClientSettings, group_id: str) -> ConsumerMemberConfig:
    """The machine's settings. The member id is a UUID as Kafka writes it, which the broker reads back in a ShareFetch."""
    return ConsumerMemberConfig(
        group_id,
        base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
        max_poll_interval_ms=settings.max_poll_interval_ms,
        rack=settings.client_rack,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        shares=True,
    )


class ShareMembership(ConsumerMembership):
    """``assign(partitions)`` is called with each assignment."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerMemberConfig,
        assign: Callable[[Iterable[TopicPartition]], None],
        tell_poll: Callable[[], None],
    ) -> None:
        super().__init__(cluster, config.group_id, tell_poll)
        self.machine = ConsumerMemberMachine(config)
        self._assign = assign

    def _carry_out(self, effect: Effect | ConsumerEffect) -> None:
        """There is no listener whose return would have to be awaited."""
        if not isinstance(effect, Revoke | Assigned):
            super()._carry_out(effect)
            return
        self.counts["rebalances"] += isinstance(effect, Assigned)
        if isinstance(effect, Revoke):
            self.machine.revoked()
        else:
            self.machine.assigned()
        self._assign(TopicPartition(*partition) for partition in self.machine.owned)
        self._tell_poll()


def share_settings(given: Mapping[str, object]) -> ClientSettings:
    """As `client_settings`, of a share consumer. Raises ConfigError also without a group.id."""
    settings = read_client_settings(ClientSettings, CLIENT_SETTINGS, given)
    require_allowed({name.replace("_", ".") for name in given}, SHARE_PROTOCOL)
    if settings.group_id is None or not settings.group_id.strip():
        raise ConfigError("a share consumer needs a group.id that is not blank")
    return settings
