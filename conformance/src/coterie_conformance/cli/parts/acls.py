"""The part `acls`: what a user with few rights is answered, by coterie and by Apache Kafka with the same ACLs."""

from __future__ import annotations

from coterie.console.terminal import write_line, write_lines
from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check

VERSIONS = ("2.6.3", "4.3.0")  # the last AclAuthorizer that coterie's clusters live beside, and StandardAuthorizer
DIFFERENCES_SHOWN = 40


def acls_part(options: PartOptions) -> Figures:
    """Asks up to ``questions`` of the stories, in an order by the seed. Raises CannotRun."""
    from coterie_conformance.access.run import run_access
    from coterie_conformance.everything.report import scenario

    def progress(line: str) -> None:
        write_line(f"Kafka {options.version}: {line}", err=True)

    run = options.version, options.questions, options.seed, options.folder / "acls"
    verdict, checks = run_access(*run, progress)
    for name, holds in checks.items():
        write_check(f"ACLs in ZooKeeper: {name}", "" if holds else "it does not hold")
    for kind, examples in list(verdict.kinds.items())[:DIFFERENCES_SHOWN]:
        text = f"\n{verdict.met[kind]} x {scenario(examples[0])}\n  (story: {examples[0].story.name})"
        write_lines(text.split("\n"), color="red", err=True)
    figures = {
        "questions": verdict.requested,
        "stories": verdict.stories,
        "seconds": round(verdict.seconds),
        "apis": len({api for api, *_ in verdict.covered}),
        "rows": {name: count for (name, _), count in verdict.rows.items()},
        "differences": dict(verdict.met),
        "zookeeper": checks,
    }
    return {"acls": figures, "failed": len(verdict.kinds) + sum(not holds for holds in checks.values())}


def acls_sentences(figures: Figures) -> list[str]:
    """What was asked, and what differed."""
    f = figures["acls"]
    counts = f"{quantity(f['questions'], 'question')} in {quantity(f['stories'], 'story', 'stories')}, {f['seconds']} s"
    kinds = quantity(len(f["differences"]), "kind")
    return [f"  ACLs: {counts}, {quantity(f['apis'], 'API')}; {kinds} of unexplained difference"]
