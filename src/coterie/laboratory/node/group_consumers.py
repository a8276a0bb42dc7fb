"""The laboratory's whole consumers, one of each group protocol: `ConsumerActor` with the protocol's membership."""

from __future__ import annotations

from typing import cast

from coterie.laboratory.consumer_member_actor import ConsumerMemberActor, ConsumerMemberBroker
from coterie.laboratory.member_actor import MemberActor
from coterie.laboratory.member_broker import MemberBroker
from coterie.laboratory.node.consumer import ConsumerActor, ConsumerParts
from coterie.laboratory.node.coordinator_view import CoordinatorView
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.machine import MemberMachine
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.metadata import MetadataResponse


class ClassicConsumer(ConsumerActor[MemberConfig, MemberMachine], MemberActor):
    """A consumer that is a member by the classic protocol."""

    may_end_by = frozenset({ErrorCode.FENCED_INSTANCE_ID})

    def __init__(self, parts: ConsumerParts[MemberConfig]) -> None:
        view = CoordinatorView(parts.broker)
        of_member = parts.name, parts.config, parts.topics, parts.ownership
        MemberActor.__init__(self, parts.world, cast(MemberBroker, view), *of_member)
        self._set_up(view, parts)

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        MemberActor._check_free(self, added)
        self.check_readers()


class ServerAssignedConsumer(ConsumerActor[ConsumerMemberConfig, ConsumerMemberMachine], ConsumerMemberActor):
    """By the consumer protocol (KIP-848). The names of assigned topics come with the metadata of their ids."""

    may_end_by = frozenset(
        {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND}
    )

    def __init__(self, parts: ConsumerParts[ConsumerMemberConfig]) -> None:
        view = CoordinatorView(parts.broker)
        of_member = parts.name, parts.config, parts.topics, parts.ownership
        ConsumerMemberActor.__init__(self, parts.world, cast(ConsumerMemberBroker, view), *of_member)
        self._set_up(view, parts)

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        self.check_readers()

    def _look_up_topics(self, topic_ids: frozenset[bytes]) -> None:
        """As the client, of the topics that the metadata lacks."""
        known = self._known

        def ended() -> None:
            self.machine.topics_looked_up(known.topic_names(topic_ids), self.clock_ms())

        def received(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            known.metadata_received(response, self.clock_ms())
            ended()

        missing = topic_ids - known.topic_names(topic_ids).keys()
        if missing:
            self.send(known.topic_ids_request(missing), received, ended)
        else:
            ended()


AnyConsumer = ClassicConsumer | ServerAssignedConsumer
