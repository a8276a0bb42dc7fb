"""Several elements in one request, as clients send them: beside the right one another, with one field changed.

A broker answers each element for itself, or refuses all for the sake of one; `systematic` changes the first of a list alone.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator

from coterie.certify.question import API_BY_NAME, Question, Story, Value, numbered
from coterie.wire.fields import FieldSpec
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.pieces import BEFORE, FIXTURES, TOPIC, Common, piece
from coterie_conformance.everything.generated.systematic import CASES_PER_STORY, classes, fields, right

# The fields that make the second element another one, by the field's own name.
_NAMES: dict[str, Value] = {
    **dict.fromkeys(("partition_index", "partition", "index"), 1),
    **dict.fromkeys(("name", "topic"), "$u"),
    "topic_id": {"@": "topic id", "of": "$u"},
}
# The same for a list, by its path or the api and its path; {}: the list may have equal elements.
_OF_LIST: dict[str, dict[str, Value]] = {
    "CreateTopics.topics": {"name": "$n{n}b"},
    "DeleteTopics.topics": {"name": "$e{n}"},
    "Metadata.topics": {"name": "$u"},
    "OffsetFetch.groups": {"group_id": "$h"},
    "CreatePartitions.topics.assignments": {},
    "topics.configs": {"name": "segment.ms"},
    "resources": {"resource_name": "$u"},
    "resources.configs": {"name": "segment.ms"},
    "protocols": {"name": "sticky"},
    "members": {"member_id": "nobody"},
    "assignments": {"member_id": "nobody"},
    "transactions": {"transactional_id": "$y"},
    "components": {"entity_type": "client-id"},
    "entries": {"entity": [{"entity_type": "user", "entity_name": "$r"}]},
    "entries.entity": {"entity_type": "client-id"},
    "entries.ops": {"key": "consumer_byte_rate"},
    "users": {"name": "$w"},
    "deletions": {"name": "$w"},
    "upsertions": {"name": "$w"},
    "feature_updates": {"feature": "group.version", "max_version_level": 1},
}
# Kafka takes these as one thing, or reads none of them.
_WITHOUT = frozenset({"creations", "filters", "renewers", "owners", "markers", "dirs"})
LABEL = "beside"
Requested = tuple[tuple[str, str], dict[str, Value]]  # ((field, class), body)
Case = tuple[tuple[str, str], str, Value, tuple[str, ...]]  # ((field, class), the list, its other element, its names)


def cases_beside(api: str, version: int, names: Names) -> Iterator[Case]:
    """Each list of the request with a right second element, then with each other value of each of its fields."""
    request = API_BY_NAME[api].request
    for where, spec in fields(api, request, version):
        if spec.kind.element is None or where in _WITHOUT:
            continue
        if spec.kind.element.shape is None:
            for name, values in classes(api, spec, version, where).items():
                if isinstance(values, list) and values:
                    yield (where, f"{name}, {LABEL}"), where, values[0], ()
        else:
            yield from _of_structures(api, version, names, where, spec)


def _of_structures(api: str, version: int, names: Names, where: str, spec: FieldSpec) -> Iterator[Case]:
    assert spec.kind.element is not None
    shape = spec.kind.element.shape
    assert shape is not None
    carried = [inner for inner in shape.fields if version in inner.versions]
    own = _names_of(api, where, {inner.name for inner in carried})
    if own is None:
        return
    element = right(api, shape, version, names, where) | own
    yield (where, f"right, {LABEL}"), where, element, tuple(own)
    for inner in carried:
        for name, value in classes(api, inner, version, f"{where}.{inner.name}").items():
            other = {**element, inner.name: value}
            if value == "<default>":
                del other[inner.name]
            yield (f"{where}.{inner.name}", f"{name}, {LABEL}"), where, other, tuple(own)


def _names_of(api: str, where: str, carried: set[str]) -> dict[str, Value] | None:
    """The fields by which elements of the list differ from each other, with the second one's values; None: it has none."""
    for key in (f"{api}.{where}", where):
        if key in _OF_LIST:
            return _OF_LIST[key]
    return {name: value for name, value in _NAMES.items() if name in carried} or None


def with_another(body: dict[str, Value], case: Case) -> dict[str, Value] | None:
    """A copy in which the list has the case's element as well; None where the list is not there, is empty, or has one of
    that name already."""
    _, path, element, own = case
    made = copy.deepcopy(body)
    at: Value = made
    for name in path.split("."):
        at = at[0] if isinstance(at, list) and at else at
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, list) or not at:
        return None
    if own and any(all(_same(one, element, name) for name in own) for one in at):
        return None
    if not own and element in at:
        return None
    at.append(element)
    return made


def _same(one: Value, other: Value, name: str) -> bool:
    """Whether a field is the same in both; one that is left out may be."""
    return name not in one or name not in other or bool(one[name] == other[name])


def stories_beside(common: Common, apis: Collection[str] = ()) -> Iterator[Story]:
    """Every case of the oldest and of the newest version that both sides serve."""
    for api in sorted(common.keys() & apis if apis else common):
        for version in sorted({common[api].first, common[api].last}):
            _, names = BEFORE.get(api, ((), Names()))
            every = list(enumerate(_bodies(api, version, names)))
            for first in range(0, len(every), CASES_PER_STORY):
                yield _story(api, version, every[first : first + CASES_PER_STORY], common)


def _bodies(api: str, version: int, names: Names) -> Iterator[Requested]:
    request = API_BY_NAME[api].request
    plain, full = right(api, request, version, names), right(api, request, version, names, full=True)
    for case in cases_beside(api, version, names):
        body = with_another(plain, case) or with_another(full, case)
        if body is not None:
            yield case[0], body


def _story(api: str, version: int, part: list[tuple[int, Requested]], common: Common) -> Story:
    pieces, names = BEFORE.get(api, ((), Names()))
    story = Story(f"{api} v{version} {LABEL} {part[0][0]} to {part[-1][0]}", strict=False)
    for name in FIXTURES.get(api, TOPIC):
        story.questions += piece(name, Names(), common)
    if "$u" in repr(part):
        for name in TOPIC:
            story.questions += piece(name, Names(topic="$u"), common)
    for n, (covers, body) in part:
        for name in pieces:
            story.questions += piece(name, names.number(n), common)
        story.questions.append(Question(str(n), api, version, numbered(body, n), covers=covers))
    return story
