"""Each field of each version of each API with each class of value, once: the right request with one field changed.

A story has what its API needs (`pieces.FIXTURES`, asked once) and, before each case, what the case uses up (`BEFORE`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from coterie.certify.question import API_BY_NAME, Question, Story, Value, numbered
from coterie.wire.declaration import Struct
from coterie.wire.fields import FieldSpec
from coterie_conformance.everything.generated.domain import Domain, Names
from coterie_conformance.everything.generated.domains import BOUNDED, SHARED, domain_of, values_of_kind
from coterie_conformance.everything.generated.pieces import BEFORE, FIXTURES, TOPIC, Common, piece
from coterie_conformance.everything.generated.variants import VARIANTS

CASES_PER_STORY = 20
Case = tuple[tuple[str, str], dict[str, Value]]  # ((field, class), body)


def domain_for(api: str, spec: FieldSpec, where: str) -> Domain | None:
    """The field's domain; a domain of numbers or texts does not apply to a list of structures."""
    domain = domain_of(api, where)
    of_structures = spec.kind.element is not None and spec.kind.element.shape is not None
    if domain is not None and of_structures and not isinstance(domain.right(Names()), list | None):
        return None
    return domain


def right(
    api: str, shape: type[Struct], version: int, names: Names, path: str = "", *, full: bool = False
) -> dict[str, Value]:
    """A request that should succeed, as far as the domains know; ``full``: no list of structures is empty."""
    body: dict[str, Value] = {}
    for spec in shape.fields:
        if version in spec.versions:
            where = f"{path}.{spec.name}" if path else spec.name
            body[spec.name] = _right(api, spec, version, names, where, full)
    return body


def _right(api: str, spec: FieldSpec, version: int, names: Names, where: str, full: bool) -> Value:
    kind, domain = spec.kind, domain_for(api, spec, where)
    if kind.element is not None:
        if kind.element.shape is not None and domain is not None and not full:
            return domain.right(names)
        if kind.element.shape is not None:
            return [right(api, kind.element.shape, version, names, where, full=full)]
        return [domain.right(names)] if domain is not None else []
    if domain is not None and not (full and kind.shape is not None):
        value = domain.right(names)
        return value if value is not None or version in spec.nullable or kind.name == "records" else ""
    if kind.shape is not None:
        return right(api, kind.shape, version, names, where, full=full)
    if kind.name == "uuid":
        return {"@": "hex", "of": "00" * 16}
    if kind.name in ("bytes", "records"):
        return ""
    return spec.default if spec.default is not None or version in spec.nullable else ""


def classes(api: str, spec: FieldSpec, version: int, where: str) -> dict[str, Value]:
    """Every other value of a field by its class; ``"<default>"`` takes the field out of the body."""
    kind, nullable = spec.kind, version in spec.nullable
    domain, made = domain_for(api, spec, where), dict[str, Value]()
    scalar = kind.element if kind.element is not None else kind
    bounded = ("", spec.name) in BOUNDED or (api, spec.name) in BOUNDED
    if scalar.shape is not None:
        made = dict(domain.wrong) if domain is not None else {}
    else:
        wrong = ({} if bounded else values_of_kind(scalar, nullable and kind.element is None)) | (
            domain.wrong if domain else {}
        )
        made = {name: [value] if kind.element is not None else value for name, value in wrong.items()}
    if not nullable and kind.element is None and kind.name != "records":
        made = {name: value for name, value in made.items() if value is not None}
    if kind.element is not None:
        made |= {"no element": []} | ({"null": None} if nullable else {})
    if spec.tag is not None or not bounded:
        made["default"] = "<default>"
    return {name: value for name, value in made.items() if not {(api, name), (api, f"{where}: {name}")} & SHARED.keys()}


def fields(api: str, shape: type[Struct], version: int, path: str = "") -> Iterator[tuple[str, FieldSpec]]:
    """Every field of a request with its path, outermost first."""
    for spec in shape.fields:
        if version in spec.versions:
            where = f"{path}.{spec.name}" if path else spec.name
            yield where, spec
            inner = spec.kind.shape or (spec.kind.element.shape if spec.kind.element is not None else None)
            if inner is not None:
                yield from fields(api, inner, version, where)


def changed(body: dict[str, Value], path: str, value: Value) -> dict[str, Value]:
    """As ``body``, with another value there, in the first element of each list on the way; what is not on the way is shared."""
    made = at = dict(body)
    *way, last = path.split(".")
    for name in way:
        inner = at.get(name)
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            first = dict(inner[0])
            at[name] = [first, *inner[1:]]
        elif isinstance(inner, dict):
            at[name] = first = dict(inner)
        else:
            return made
        at = first
    if value == "<default>":
        at.pop(last, None)
    elif value == "<twice>":
        at[last] = (at.get(last) or []) * 2
    else:
        at[last] = value
    return made


def _reaches(body: Value, path: str) -> bool:
    """Whether the path's last field stands in this body."""
    first, _, rest = path.partition(".")
    if not rest:
        return True
    inner = body.get(first)
    if isinstance(inner, list):
        inner = inner[0] if inner else None
    return isinstance(inner, dict) and _reaches(inner, rest)


def cases(api: str, version: int, names: Names) -> Iterator[Case]:
    """((field, class), body) of one version, the right request first."""
    for label, parts in {"": {}, **VARIANTS.get(api, {})}.items():
        for (where, name), body in _cases_of(api, version, names, parts):
            yield (where, f"{name}, {label}" if label else name), body


def _cases_of(api: str, version: int, names: Names, parts: dict[str, Value]) -> Iterator[Case]:
    request = API_BY_NAME[api].request
    plain, full = right(api, request, version, names), right(api, request, version, names, full=True)
    carried = {where for where, _ in fields(api, request, version)}
    for where, value in parts.items():
        if where not in carried:
            return
        plain, full = changed(plain, where, value), changed(full, where, value)
    yield ("", "right"), plain
    for where, spec in fields(api, request, version):
        body = plain if _reaches(plain, where) else full
        for name, value in classes(api, spec, version, where).items():
            yield (where, name), changed(body, where, value)
        if spec.kind.element is not None and (api, "twice") not in SHARED:
            yield (where, "twice"), changed(body, where, "<twice>")


def systematic(common: Common, apis: Collection[str] = ()) -> Iterator[Story]:
    """Stories that ask every case of every API that both sides serve."""
    for api in sorted(common.keys() & apis if apis else common):
        for version in range(common[api].first, common[api].last + 1):
            _, names = BEFORE.get(api, ((), Names()))
            every = list(enumerate(cases(api, version, names)))
            for first in range(0, len(every), CASES_PER_STORY):
                yield _story(api, version, every[first : first + CASES_PER_STORY], common)


def _story(api: str, version: int, part: list[tuple[int, Case]], common: Common) -> Story:
    pieces, names = BEFORE.get(api, ((), Names()))
    story = Story(f"{api} v{version} cases {part[0][0]} to {part[-1][0]}", strict=False)
    for name in FIXTURES.get(api, TOPIC):
        story.questions += piece(name, Names(), common)
    for n, (label, body) in part:
        for name in pieces:
            story.questions += piece(name, names.number(n), common)
        story.questions.append(Question(str(n), api, version, numbered(body, n), covers=label))
    return story
