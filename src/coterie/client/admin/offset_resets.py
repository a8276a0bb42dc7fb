"""The offsets of a group without members, set by the records of its topics, or only shown as they would be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from coterie.client.admin_types import GroupType
from coterie.client.errors import KafkaError, check
from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode

if TYPE_CHECKING:
    from coterie.client.admin.admin import Admin

EARLIEST, LATEST = -2, -1
Offsets = dict[TopicPartition, int]
Choose = Callable[["Admin", list[TopicPartition] | None, Offsets], Awaitable[Offsets]]


async def reset_offsets(
    admin: Admin, group: str, topics: Iterable[str], choose: Choose, *, dry_run: bool
) -> list[tuple[TopicPartition, int | None, int]]:
    """Each partition with its offset before and after, of a share group its start offsets. ``topics``: only those; empty for
    all that the group has committed.
    Raises KafkaError NON_EMPTY_GROUP."""
    # Reports a broker that is away at once; the look-up of a coordinator is repeated for a minute.
    await admin.describe_cluster()
    names = list(topics)
    for name, info in (await admin.describe_topics(names) if names else {}).items():
        check(info.error, subject=f"topic {name}")
    is_shared = await _is_shared(admin, group)
    if is_shared:
        now = {tp: at.start_offset for tp, at in (await admin.list_share_group_offsets(group)).items()}
    else:
        now = await admin.list_consumer_group_offsets(group)
    wanted = await choose(admin, await admin.partitions(names) if names else None, now)
    if not dry_run and wanted:
        try:
            await (admin.alter_share_group_offsets if is_shared else admin.alter_consumer_group_offsets)(group, wanted)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP):
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{group} has members; stop them first") from error
            raise
    return [(tp, now.get(tp), offset) for tp, offset in sorted(wanted.items())]


async def _is_shared(admin: Admin, group: str) -> bool:
    try:
        return (await admin.describe_consumer_group(group)).type is GroupType.SHARE
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise


def by_records(*, offset: int | None = None, timestamp_ms: int = 0) -> Choose:
    """An offset, or the first record since a time (`EARLIEST`, `LATEST`); none that late: the end."""

    async def choose(
        admin: Admin, partitions: list[TopicPartition] | None, now: Mapping[TopicPartition, int]
    ) -> Offsets:
        wanted = list(now) if partitions is None else partitions
        ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST))
        if offset is not None:
            return {tp: min(offset, ends[tp]) for tp in wanted}
        offsets = await admin.list_offsets(dict.fromkeys(wanted, timestamp_ms))
        return {tp: at if at >= 0 else ends[tp] for tp, at in offsets.items()}

    return choose
