"""From what happened to a share group to the journal's lines: what raised the group epoch, the target assignment, and what each
member has. Several members may have a partition, so that none has moved."""

from __future__ import annotations

from coterie.coordinator.journal.consumer_lines import because
from coterie.coordinator.journal.line import OWNERS_SHOWN, JournalLine
from coterie.coordinator.share import events as s
from coterie.coordinator.share.state import ShareGroup


def fill_share_line(line: JournalLine, event: s.ShareEvent, group: ShareGroup) -> bool:
    """Completes the line of an event; False for an event that is not worth one."""
    line.members = len(group.members)
    match event:
        case s.ShareEpochStored():
            line.event = "epoch_raised"
            because(line, event.cause)
        case s.ShareEpochRemoved():
            line.event = "group_removed"
            because(line, event.cause)
        case s.ShareMemberRemoved():
            line.event = "member_removed"
            because(line, event.cause)
            line.owners = _owners(group, event.member_id)
        case s.ShareTargetEpochStored() if group.members:  # without members nothing was computed
            line.event = "target_computed"
        case s.ShareCurrentStored():
            line.event = "member_reconciled"
            line.member, line.member_epoch = event.member_id, event.current.member_epoch
            line.owners = _owners(group)
        case s.StatePartitionsStored() if event.cause is not None:
            line.event = "states_changed"
            because(line, event.cause)
        case _:
            return False
    return True


def _owners(group: ShareGroup, removed: str = "") -> dict[str, dict[str, list[int]]] | None:
    """What each member has but the one that is removed; None where it is too much for a line."""
    states = {} if group.states is None else group.states.initialized
    owners: dict[str, dict[str, list[int]]] = {}
    count = 0
    for member_id, member in group.members.items():
        for topic_id, partition in sorted(member.current.assigned) if member_id != removed else ():
            if topic_id in states:
                owners.setdefault(member_id, {}).setdefault(states[topic_id].name, []).append(partition)
                count += 1
    return owners if count <= OWNERS_SHOWN else None
