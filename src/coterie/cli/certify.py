"""`coterie certify`: any broker's responses beside the recorded responses of Apache Kafka."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.invocation import broker_option, json_option, progress_bar, run, sentences
from coterie.console.terminal import write_json, write_line

if TYPE_CHECKING:
    from coterie.certify.recording import Recording
    from coterie.certify.replay import Certificate, StoryOutcome
    from coterie.client.security import Security


@click.command(
    epilog="""\b
Examples:
  coterie certify --bootstrap-server 127.0.0.1:9092
  coterie certify -b 127.0.0.1:9092 --like 3.9.1 --out certificate.html
  coterie certify -b 127.0.0.1:9092 --rules

For a test broker alone: it makes topics, groups and producers under names of its own (cert-...) and deletes its topics.
It changes nothing under other names and no setting of the broker. Exits 0 when all agrees, 1 when something differs.
"""
)
@broker_option
@click.option(
    "--like", "version", metavar="VERSION", help="The recorded Apache Kafka to compare with; default: the newest."
)
@click.option("--rules", "rules_only", is_flag=True, help="Only the named rules, without the generated requests.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write a page: .html or .md.")
@json_option
def certify(client: dict[str, str], version: str | None, rules_only: bool, out: Path | None, as_json: bool) -> None:
    """Compare a broker's responses with the recorded responses of Apache Kafka."""
    from coterie.certify.recording import Recording, load, recorded_versions
    from coterie.client.settings.settings import client_settings

    versions = recorded_versions()
    like = version or versions[-1]
    if like not in versions:
        raise click.UsageError(f"There is no recording of Apache Kafka {like}; there are {', '.join(versions)}.")
    if out is not None and out.suffix not in (".html", ".md"):
        raise click.UsageError(f"--out takes a file that ends in .html or .md, not {out.name}.")
    recording = load(like)
    stories = [story for story in recording.stories if story.rule or not rules_only]
    settings = sentences(client_settings, client)
    certificate = _run(Recording(like, stories), settings.bootstrap()[0], settings.security())
    if out is not None:
        _write(certificate, out)
    _show(certificate, out, as_json)
    raise SystemExit(0 if certificate.holds() else 1)


def _run(recording: Recording, address: tuple[str, int], security: Security) -> Certificate:
    from coterie.certify.replay import CannotCertify
    from coterie.certify.replay import certify as compare

    token = secrets.token_hex(2)
    with progress_bar(len(recording.stories), "stories") as advance:

        def progress(_: StoryOutcome) -> None:
            advance(1)

        try:
            certificate: Certificate = run(compare(recording, address, token, progress, security))
        except CannotCertify as error:
            raise click.ClickException(str(error)) from error
    return certificate


def _write(certificate: Certificate, out: Path) -> None:
    from coterie.certify.page import as_html, as_markdown

    out.write_text(as_html(certificate) if out.suffix == ".html" else as_markdown(certificate), encoding="utf-8")


def _show(certificate: Certificate, out: Path | None, as_json: bool) -> None:
    from coterie.certify.page import WORDS, short, summary, title
    from coterie.certify.replay import DIFFERS

    if as_json:
        write_json(certificate.as_json(), indent=2)
        return
    write_line(f"{title(certificate)}:")
    for finding in certificate.rules():
        write_line(
            f"  {WORDS[finding.outcome]:9}  {finding.story.title}", color="red" if finding.outcome == DIFFERS else None
        )
        if finding.outcome == DIFFERS:
            difference = finding.differences[0]
            part = difference.parts[0]
            values = f"{short(part.ours)}, Kafka's {short(part.theirs)}"
            write_line(f"             {difference.question.name}: {part.path or 'the response'} is {values}")
    write_line(summary(certificate))
    if out is None:
        write_line("--out PAGE.html shows each request and both responses.")
    else:
        write_line(f"The page is {out}.")
