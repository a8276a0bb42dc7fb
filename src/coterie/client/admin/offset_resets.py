"""The offsets of a group set by the records of its topics, or deleted; or only shown as they would be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
    names = list(topics)
    await _check_topics(admin, names)
    is_shared = await _is_shared(admin, group)
    now = await _offsets(admin, group, is_shared)
    wanted = await choose(admin, await admin.partitions(names) if names else None, now)
    if not dry_run and wanted:
        with _without_members(group):
            await (admin.alter_share_group_offsets if is_shared else admin.alter_consumer_group_offsets)(group, wanted)
    return [(tp, now.get(tp), offset) for tp, offset in sorted(wanted.items())]


async def delete_offsets(
    admin: Admin, group: str, topics: Iterable[str], *, dry_run: bool
) -> tuple[list[tuple[TopicPartition, int]], list[KafkaError]]:
    """Deletes what the group has committed of these topics, of a share group its start offsets and the states of records.
    Returns the partitions with the offsets that they had, and the errors of the others. Raises KafkaError GROUP_ID_NOT_FOUND;
    NON_EMPTY_GROUP of a share group."""
    names = list(topics)
    await _check_topics(admin, names)
    is_shared = (await admin.describe_consumer_group(group)).type is GroupType.SHARE
    wanted = {tp: at for tp, at in (await _offsets(admin, group, is_shared)).items() if tp.topic in names}
    topic_errors, errors = dict[str, KafkaError](), dict[TopicPartition, KafkaError]()
    if is_shared and not dry_run:
        with _without_members(group):  # also the states of topics that the group has not read yet
            await admin.delete_share_group_offsets(group, names, errors=topic_errors)
    elif wanted and not dry_run:
        await admin.delete_consumer_group_offsets(group, wanted, errors=errors)
    deleted = [(tp, at) for tp, at in sorted(wanted.items()) if tp not in errors and tp.topic not in topic_errors]
    return deleted, [*topic_errors.values(), *errors.values()]


async def _check_topics(admin: Admin, names: list[str]) -> None:
    # Reports a broker that is away at once; the look-up of a coordinator is repeated for a minute.
    await admin.describe_cluster()
    for name, info in (await admin.describe_topics(names) if names else {}).items():
        check(info.error, subject=f"topic {name}")


async def _offsets(admin: Admin, group: str, is_shared: bool) -> Offsets:
    if is_shared:
        return {tp: at.start_offset for tp, at in (await admin.list_share_group_offsets(group)).items()}
    return await admin.list_consumer_group_offsets(group)


@contextmanager
def _without_members(group: str) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP):
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{group} has members; stop them first") from error
        raise


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
