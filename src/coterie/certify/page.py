"""A certificate as a page: which rules hold, and the requests and responses of the broken ones. HTML or Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coterie.certify.question import written
from coterie.certify.recording import NOT_ASKED, NOT_COMPARED
from coterie.certify.replay import DIFFERS, HOLDS, NOT_SERVED, Certificate, DifferingResponse, StoryOutcome
from coterie.certify.responses import Tree
from coterie.console.page import Markup, Section, element, page, table

SHOWN = 3  # differences of one API
PARTS_SHOWN = 6  # places in one answer
VALUE_CHARACTERS = 160
WORDS = {HOLDS: "holds", DIFFERS: "differs", NOT_SERVED: "not asked"}


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the page: a heading (its ``level`` 2 or 3), a paragraph, a table, or lines of requests."""

    heading: str = ""
    level: int = 2
    text: str = ""
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    requests: tuple[str, ...] = ()


def title(certificate: Certificate) -> str:
    """The heading: which broker beside which Kafka."""
    return f"{certificate.address} beside Apache Kafka {certificate.like}"


def summary(certificate: Certificate) -> str:
    """One sentence with the figures."""
    counts, rules = certificate.outcomes(), len(certificate.rules())
    text = f"{counts[HOLDS]} of {rules} rules hold"
    text += f", {counts[DIFFERS]} differ" if counts[DIFFERS] else ""
    text += f", {counts[NOT_SERVED]} need what the broker does not serve" if counts[NOT_SERVED] else ""
    generated = certificate.generated()
    requests, wrong = sum(f.requests for f in generated), sum(len(f.differences) for f in generated)
    if not generated:
        return f"{text}."
    return f"{text}. {requests:,} generated requests were sent; {wrong:,} had other responses."


def as_html(certificate: Certificate) -> str:
    """The certificate as one HTML page, its pictures and styles inside."""
    sections: list[Section] = []
    for block in blocks(certificate):
        parts = [element("p", block.text)] if block.text else []
        parts += [element("pre", "\n".join(block.requests))] if block.requests else []
        parts += [table(block.headers, block.rows)] if block.rows else []
        sections.append(Section(block.heading, "", Markup("".join(parts))))
    return page(title(certificate), summary(certificate), sections)


def as_markdown(certificate: Certificate) -> str:
    """The certificate in Markdown, as docs/certify keeps it."""
    lines = [f"# {title(certificate)}", "", summary(certificate), ""]
    for block in blocks(certificate):
        lines += [f"{'#' * block.level} {block.heading}", ""]
        lines += [block.text, ""] if block.text else []
        lines += ["```", *block.requests, "```", ""] if block.requests else []
        if block.rows:
            lines += [_markdown_row(block.headers), _markdown_row(["---"] * len(block.headers))]
            lines += [*(_markdown_row(row) for row in block.rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def blocks(certificate: Certificate) -> Iterator[Block]:
    """The page from top to bottom."""
    subjects = dict.fromkeys(f.story.subject for f in certificate.rules())
    for subject in subjects:
        findings = [f for f in certificate.rules() if f.story.subject == subject]
        rows = tuple((WORDS[f.outcome], f.story.title, f.story.source, f.story.rule) for f in findings)
        yield Block(subject, headers=("", "Rule", "Source", "Name"), rows=rows)
    for finding in certificate.rules():
        if finding.outcome == DIFFERS:
            yield _difference(finding)
    missing = sorted({f.missing for f in certificate.findings if f.outcome == NOT_SERVED})
    if missing:
        versions = tuple((api, f"v{version}", _served(certificate, api)) for api, version in missing)
        yield Block("Not served", headers=("API", f"Asked as {certificate.like} has it", "Served here"), rows=versions)
    yield from _generated(certificate)
    left_out = tuple(NOT_COMPARED.items())
    yield Block("Not compared", 2, "", ("Place in an answer", "Why"), left_out)
    yield Block("Not asked", 2, "", ("API", "What it would reach"), tuple(NOT_ASKED.items()))


def _served(certificate: Certificate, api: str) -> str:
    versions = certificate.served.get(api)
    return f"v{versions[0]} to v{versions[1]}" if versions else "no version"


def _difference(finding: StoryOutcome) -> Block:
    difference = finding.differences[0]
    requests = tuple(written(question) for question in finding.before())
    note = (
        f"{finding.story.title}. The last of these requests is answered otherwise; $ stands for the story's own names."
    )
    return Block(f"Differs: {finding.story.rule}", 2, note, _HEADERS, tuple(_parts(difference)), requests)


_HEADERS = ("Place in the answer", "This broker", "Apache Kafka")


def _parts(difference: DifferingResponse) -> Iterator[tuple[str, str, str]]:
    for part in difference.parts[:PARTS_SHOWN]:
        yield part.path or "the whole answer", short(part.ours), short(part.theirs)
    more = len(difference.parts) - PARTS_SHOWN
    if more > 0:
        yield f"and {more} more", "", ""


def short(value: Tree) -> str:
    """A value in at most `VALUE_CHARACTERS`."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 4] + " ..."


def _generated(certificate: Certificate) -> Iterator[Block]:
    by_api: dict[str, list[StoryOutcome]] = {}
    for finding in certificate.generated():
        by_api.setdefault(finding.story.title.partition(" ")[0], []).append(finding)
    rows = tuple(
        (api, f"{sum(f.requests for f in findings):,}", f"{sum(len(f.differences) for f in findings):,}")
        for api, findings in by_api.items()
        if any(f.requests for f in findings)
    )
    note = (
        "The right request of each API with one field changed at a time: absent, null, empty, extreme, unknown, wrong. "
        "The counts include what a request needs before it."
    )
    yield Block("Every field of every request", 2, note, ("API", "Requests", "Answered otherwise"), rows)
    for api, findings in by_api.items():
        differences = [d for f in findings for d in f.differences]
        for n, difference in enumerate(differences[:SHOWN], 1):
            heading = f"{api}: {n} of {len(differences)}"
            yield Block(heading, 3, "", _HEADERS, tuple(_parts(difference)), (written(difference.question),))
