"""Sentences about groups as data: a name of `ENGLISH` with its values. A program's text is the English; a page words the same
phrase in its reader's language (`web/texts.json`, the names that begin with `phrase.`)."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from coterie.text.quantity import listed, quantity, span

NAMED = 3  # of a list of names
PhraseValue: TypeAlias = "str | int | Phrase | tuple[str, ...] | tuple[Phrase, ...]"

# {NAME:NOUN} is a number with its noun, {NAME:span} a length of time in ms; a list of names ends with how many more there are,
# and so does {NAME:,} of phrases; of other phrases all are there, with semicolons or, {NAME:and}, as the start of a sentence.
ENGLISH = {
    # why a group stands where it stands
    "stable": "no rebalance is under way: generation {generation} has {members:member}",
    "stable_epoch": "no rebalance is under way: each of {members:member} has its partitions of epoch {epoch}",
    "stable_tasks": "no rebalance is under way: each of {members:member} has its tasks of epoch {epoch}",
    "and_restoring": "{phrase}; {restoring:,}",
    "initial_delay": "the first rebalance is delayed so that more members can join; the group has {members:member}",
    "waits_for_joins": "a rebalance waits for {late} to join again; {joined} of {members} have",
    "waits_for_leader": "the members have joined; the leader {leader} has not sent the assignment yet",
    "waits_for_syncs": "the assignment is stored; the group waits for {late} to fetch it",
    "empty": "the group has no members",
    "empty_with_offsets": "the group has no members and {offsets:committed offset}",
    "empty_without_offsets": "the group has no members and no committed offsets",
    "computes_target": "the next heartbeat of a member computes the target assignment of epoch {epoch}",
    "computes_target_after": "the next heartbeat of a member after {ms} ms ({setting}) computes the target assignment of epoch "
    "{epoch}",
    "computes_share_target": "a target assignment is computed with the next heartbeat",
    "computes_share_target_after": "a target assignment is computed in {ms} ms, with the next heartbeat after that",
    "computes_first_target": "the first target assignment is computed after {ms} ms ({setting}), so that more members may "
    "join",
    "reconciles": "{late}",
    "reconciles_more": "{late}; and {more} more",
    "late": "{member} {owes}",
    "late_until": "{member} {owes}; its rebalance timeout ends in {seconds} s",
    "states_initialize": "the states of {partitions:partition} are being initialized by the share coordinator",
    "share_target_awaited": "{late:member} of {members} took no part of the target assignment yet",
    "share_target_taken": "every member has its part of the target assignment",
    "no_tasks": "no member gets a task: {problem}",
    "topology_awaits_heartbeat": "the next heartbeat of a member looks at the topics of the topology",
    "restores": "task {task} restores on {member} for {seconds} s, {records:record} behind",
    # what a member owes
    "owes_join": "has not sent JoinGroup again",
    "owes_first_join": "was given a member id and has not joined with it",
    "owes_assignment": "leads, and has not sent the assignment",
    "owes_sync": "has not sent SyncGroup",
    "is_away": "is away, and its instance id has not come back",
    "owes_release": "has not released {partitions}",
    "owes_release_for": "has not released {partitions} for {seconds} s",
    "awaits_holder": "waits for {partitions}, which {holders} has",
    "awaits_holders": "waits for {partitions}, which {holders} have",
    "gets_partitions": "gets its partitions with its next heartbeat",
    "gets_tasks": "gets its tasks with its next heartbeat",
    "takes_share_target": "takes its part of the target assignment with its next heartbeat",
    "owes_heartbeat": "has not sent a heartbeat since the target of epoch {epoch} was computed",
    # what a timeout does
    "then_formed": "the first generation is formed, or the delay goes on if more members have just joined",
    "then_syncs_removed": "the members without a SyncGroup are removed, and a new rebalance begins",
    "then_id_expires": "the member id expires",
    "then_id_not_awaited": "the member id expires, and the rebalance no longer waits for it",
    "then_waits_again": "no member has rejoined and static members stay, so the rebalance timeout begins again",
    "then_static_stay": "the generation is formed; static members that have not rejoined stay in it",
    "then_one_removed": "{removed} of {members:member} is removed ({leaving}), and the others go on",
    "then_some_removed": "{removed} of {members:member} are removed ({leaving}), and the others go on",
    "then_only_removed": "{removed} of {members:member} is removed ({leaving}), and the group is empty",
    "then_all_removed": "{removed} of {members:member} are removed ({leaving}), and the group is empty",
    "then_removed": "the member is removed",
    "then_removed_empty": "the member is removed, and the group is empty",
    "then_removed_rebalance": "the member is removed, and a rebalance begins",
    "then_removed_formed": "the member is removed, and the generation is formed with the others",
    "then_partitions_freed": "the member is removed, and {count:partition} of it can be assigned to others",
    "then_tasks_freed": "the member is removed, and {count:task} of it can be assigned to others",
    "then_redelivered": "the member is removed, and what it had acquired is delivered to others once the locks have ended",
    # of a group that is seen from outside
    "seen_stable": "the group is stable with {members:member}",
    "seen_joining": "a rebalance waits for members to join; the group has {members:member}",
    "seen_syncing": "all of {members:member} have joined, and the leader has not sent the assignment yet",
    "seen_in_state": "the group is {state} with {members:member}",
    "and_watched": "{phrase}; while it was watched: {happened}",
    "and_nothing_moved": "{phrase}; nothing moved while it was watched",
    "and_some_not_seen": "{phrase}; members whose requests do not pass the proxy are not known",
    "unseen": "watched for {watched_ms:span}; heartbeats, timers, and who has joined are not seen from outside: a coterie "
    "broker shows them",
    "unseen_in_journal": "this is the state at the journal's last line; heartbeats, timers and lag are not in a journal",
    "unseen_by_proxy": "this is what has passed the proxy; the ends of the logs have not, so no lag is known",
    "then_joins_removed": "members that have not joined are removed, and the generation is formed with the others",
    "then_seen_syncs_removed": "members without a SyncGroup are removed, and a new rebalance begins",
    "then_removed_if_dead": "the member is removed if it has died, and a rebalance begins",
    "then_leaves_if_idle": "the member leaves if it has not polled, and a rebalance begins",
    # what a journal says of a group
    "cause": "{text}",
    "because": "{causes}",
    "event_because": "{event}, {causes}",
    "last_in_journal": "{happened}",
    "no_cause_in_journal": "the journal has no cause",
    "unserved": "{reason}",
    # what a deploy would cost
    "use_cooperative": "move to the cooperative-sticky assignor",
    "use_consumer": "move to group.protocol=consumer",
    "use_static": "give every member a group.instance.id",
    "use_setting": "set {name}={value}",
    "use_group_setting": "set {name}={value} of the group",
    "setting": "{assignor}, session {session_ms:span}",
    "setting_static": "{assignor}, static, session {session_ms:span}",
    "setting_consumer": "consumer protocol, session {session_ms:span}",
    "setting_consumer_static": "consumer protocol, static, session {session_ms:span}",
    "deploy_costs": "The deploy costs {unowned_s} s unowned per partition and {rebalances:rebalance}.",
    "deploy_best_as_is": "Leave the settings as they are: the deploy costs {unowned_s} s unowned per partition and "
    "{rebalances:rebalance}, and no other setting saves a tenth of it.",
    "deploy_change": "{changes:and}: {unowned_s} s unowned per partition instead of {today_s} s, and "
    "{rebalances:rebalance} instead of {today}.",
    "deploy_change_crash": "{changes:and}: {unowned_s} s unowned per partition instead of {today_s} s, and "
    "{rebalances:rebalance} instead of {today}; a crash is noticed after {session_ms:span} then.",
    # what is assumed for it, and why there is no prediction
    "assumed_default": "{name} is not known: {value} is assumed, the default",
    "assumed_third": "{name} is not known: {value} is assumed, a third of the session timeout",
    "assumed_largest": "{name} differs between members: {value} is taken for all (others: {others})",
    "assumed_short_polls": "the time between two polls is not known: it is assumed to be short",
    "assumed_rate": "the rate of records is not known: {rate}/s a partition is assumed",
    "assumed_java": "the clients' software is not known: they are taken for Java's, which join in their polls",
    "assumed_dynamic": "{static} of {members} members are static: all are taken for dynamic",
    "assumed_range": "the assignor {name} is not one of Kafka's: range is taken for it",
    "topic_unread": "{topic} cannot be read: grant READ on the topic",
    "no_deploy_of_share": "{group} is a share group: its members own records and no partitions, so that a restart leaves none "
    "unowned",
    "no_deploy_of_streams": "{group} is a streams group: no deploy is predicted, since how long tasks restore their state is "
    "not known",
    "no_deploy_of_empty": "{group} has no members to restart; start its consumers, and predict then",
    "prediction_under_way": "another prediction is under way; try again when it is done",
    "prediction_killed": "the process that predicts was killed",
    # what a console refuses
    "not_a_number": "{name} must be a whole number from {least} to {most}",
    "not_a_text": "{name} must be a text",
    "not_one_of": "{name} must be one of {values}",
    "not_an_object": "the request must be a JSON object",
    "not_json": "the request must be JSON",
    "group_has_members": "{group} has members; stop them first",
    "no_group": "there is no group {group}",
    "no_partition": "there is no such topic or partition",
    "of_kafka": "{error}",
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A name of `ENGLISH`, and what stands in it: texts, numbers, phrases, or lists of names or phrases."""

    name: str
    values: Mapping[str, PhraseValue]

    def __str__(self) -> str:
        """In English."""
        return _ENGLISH.vformat(ENGLISH[self.name], (), self.values)


class _English(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, tuple):
            parts = [str(part) for part in value]
            if format_spec == "and":
                text = " and ".join(parts)
                return text[:1].upper() + text[1:]
            is_of_phrases = any(isinstance(part, Phrase) for part in value)
            return "; ".join(parts) if is_of_phrases and not format_spec else listed(parts, NAMED)
        if format_spec == "span":
            return span(value)
        return quantity(value, format_spec) if format_spec else str(value)


_ENGLISH = _English()


class PhrasedError(Exception):
    """Why something is refused, as the phrase of that name."""

    def __init__(self, name: str, /, **values: PhraseValue) -> None:
        self.phrase = Phrase(name, values)
        super().__init__(str(self.phrase))


def phrase_fields(name: str, phrase: Phrase) -> dict[str, Any]:
    """The fields of a document: the phrase in English, and as data."""
    return {name: str(phrase), f"{name}_phrase": asdict(phrase)}


def read_phrase(document: Any) -> Phrase:
    """A phrase from a document. Raises ValueError."""
    match document:
        case {"name": str(name), "values": dict(values)}:
            return Phrase(name, {str(key): _read_value(value) for key, value in values.items()})
    raise ValueError(f"{document!r} is no Phrase")


def _read_value(value: Any) -> PhraseValue:
    if isinstance(value, list | tuple):
        parts = [_read_value(part) for part in value]
        texts = tuple(part for part in parts if isinstance(part, str))
        return texts if len(texts) == len(parts) else tuple(part for part in parts if isinstance(part, Phrase))
    if isinstance(value, dict):
        return read_phrase(value)
    if isinstance(value, str) or type(value) is int:
        return value
    raise ValueError(f"{value!r} is no value of a Phrase")
