"""Functions that recognise the known differences of group stories; names and reasons are in `differences.STORY_ROWS`.

Each takes the story and how its sides parted: what coterie and Kafka last answered. One difference is not even asked for,
since waiting for it would take minutes: a second JoinGroup or SyncGroup of a member whose first still waits. Kafka never
answers the first; coterie answers it REBALANCE_IN_PROGRESS. Nor are OffsetCommit and OffsetFetch v0, which in Kafka were
about ZooKeeper and here are about the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from coterie_conformance.groups.questions import GroupActor, GroupView

Response = dict[str, Any]


class DifferingStory(Protocol):
    """A `story.GroupStory` as far as the recognisers read it. ``joining`` names the actors whose JoinGroup waits;
    ``parted`` is the question, our response and Kafka's; ``log`` has a line for each step."""

    kind: str
    version: tuple[int, ...]
    actors: dict[str, GroupActor]
    view: GroupView
    joining: set[str]
    last_question: str
    parted: tuple[str, Response, Response] | None

    @property
    def log(self) -> list[str]: ...


def other_leader(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Both formed the same generation under a new leader; only which one differs."""
    if "leader" not in ours or story.view.leader in (ours["leader"], theirs["leader"]):
        return False
    same = {k: v for k, v in ours.items() if k not in ("leader", "members")}
    return ours["leader"] != theirs["leader"] and same == {
        k: v for k, v in theirs.items() if k not in ("leader", "members")
    }


def tied_vote(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Only the chosen protocol differs, and as many members voted for the one as for the other."""
    names = (ours.get("protocol_name"), theirs.get("protocol_name"))
    if None in names or names[0] == names[1]:
        return False
    members = {m["member_id"] for m in ours["members"]}  # in the leader's response; others may have left by now
    rejoined = [a for a in story.actors.values() if a.name in story.joining or a.member in members]
    known = [a for a in story.actors.values() if a.member in story.view.members or a in rejoined]
    return any(_is_tie(str(names[0]), str(names[1]), [a.protocols for a in joined]) for joined in (rejoined, known))


def _is_tie(one: str, other: str, protocols: list[tuple[str, ...]]) -> bool:
    if not protocols:
        return False
    common = set.intersection(*map(set, protocols))
    votes = [next((p for p in preferred if p in common), "") for preferred in protocols]
    return votes.count(one) == votes.count(other)


def made_by_a_refused_join(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """A first join that was refused left an Empty group without protocol type in Kafka's memory."""
    states = ours.get("group_state"), theirs.get("group_state")
    return states == ("Dead", "Empty") and theirs["protocol_type"] == ""


def unknown_instance(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 overlooks an instance id that the group does not know, LeaveGroup does so until 4; now it is
    UNKNOWN_MEMBER_ID."""
    old = story.version < ((4,) if "LeaveGroup" in story.last_question else (3,))
    named = "instance=i" in story.last_question or "'i" in story.last_question
    return old and named and "UNKNOWN_MEMBER_ID" in str(ours)


def delete_of_a_refused_group(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """The same memory of a refused commit, met by a later commit, DeleteGroups or OffsetDelete."""
    requested = "Delete" in story.last_question or "OffsetCommit" in story.last_question
    unknown_here = "GROUP_ID_NOT_FOUND" in str(ours) or "ILLEGAL_GENERATION" in str(ours)
    return (story.view.state == "Dead" or "-nobody" in story.last_question) and unknown_here and requested


def emptied(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Before Kafka 4 an Empty group went with its last offset."""
    states = ours.get("group_state"), theirs.get("group_state")
    return story.version < (4,) and states == ("Empty", "Dead")


def pending_leave_fails(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 looks a pending member up among the members, and fails."""
    failed = theirs.get("error_code") in ("UNSUPPORTED_VERSION", "UNKNOWN_SERVER_ERROR")
    return story.version < (3,) and "LeaveGroup" in story.last_question and failed


def leave_one_by_one(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Before Kafka 4 each member of a batch left for itself: the first to go could complete the join phase with the
    next still in it."""
    return story.version < (4,) and story.last_question.count("('") > 1 and "LeaveGroup" in story.last_question


def refused_for_room(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 forgets which static member is who when it refuses that member's join for want of room, and keeps a
    pending id that it refused."""
    return story.version < (3,) and any("GROUP_MAX_SIZE_REACHED" in line for line in story.log)


def plain_commit_unstable(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 can take an earlier plain commit for a pending one when a fetch requires stability."""
    return story.version < (3,) and "UNSTABLE_OFFSET_COMMIT" in str(theirs)


def transactional_member(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 lets a transaction commit with a member id and no generation, and checks in another order."""
    return story.version < (3,) and "TxnOffsetCommit" in story.last_question


def case_of_states(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Kafka 2.6 takes the case of a state filter as it is."""
    filtered = "EMPTY" in story.last_question or "preparingrebalance" in story.last_question
    return story.version < (3,) and "ListGroups" in story.last_question and filtered


def full_group_waits(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """A pending id that finds the group full is gone, and may have been all that the others waited for: here they are
    answered at once; Kafka looks again at the next request or at the rebalance timeout."""
    responses = theirs.get("answers", {})
    full = [a for a, response in responses.items() if response["error_code"] == "GROUP_MAX_SIZE_REACHED"]
    return bool(full) and len(ours["answers"]) > len(responses) and ours["answers"][full[0]] == responses[full[0]]


def removed_while_syncing(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """A removed member's SyncGroup that waits is answered UNKNOWN_MEMBER_ID here; Kafka leaves it without a response."""
    here, there = ours.get("answers", {}), theirs.get("answers", {})
    more = {a: response for a, response in here.items() if a not in there}
    same = all(here.get(a) == response for a, response in there.items())
    return (
        bool(more) and same and all(s["error_code"] == "UNKNOWN_MEMBER_ID" and "assignment" in s for s in more.values())
    )


def commit_to_unknown(story: DifferingStory, ours: Response, theirs: Response) -> bool:
    """Since Kafka 4 a commit of a member to an unknown group has an error of its own: OffsetCommit v9 GROUP_ID_NOT_FOUND, where
    it was ILLEGAL_GENERATION, and TxnOffsetCommit ILLEGAL_GENERATION, where it was UNKNOWN_MEMBER_ID."""
    refusals = (
        ("* OffsetCommit v9", "GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION"),
        ("* TxnOffsetCommit", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"),
    )
    requested = story.last_question.replace(":", "")
    return story.version < (4,) and any(q in requested and o in str(ours) and t in str(theirs) for q, o, t in refusals)


def described_as(group: Response, version: tuple[int, ...]) -> Response:
    """Before Kafka 4 only a Stable group's assignments are described; ours are left out of the comparison then."""
    if version < (4,) and group["group_state"] != "Stable":
        for member in group["members"]:
            member["member_assignment"] = b""
    return group
