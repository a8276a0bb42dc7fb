"""`coterie log`: what lies in a data folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import json_option
from coterie.console.terminal import write_json, write_line, write_lines
from coterie.text.quantity import quantity

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import CheckedFolder, FolderFinding


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie log check ./kafka-data
  coterie log check /var/lib/kafka/data --json
  coterie log bootstrap ./kafka-data --release 4.4
""",
)
def log() -> None:
    """Check a data folder, coterie's or Apache Kafka's."""


@log.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check a data folder: report what a start would change.

    Reads every log and file, and changes nothing.

    Exits with 0 where all is well, 1 where there are findings. The broker must be stopped.
    """
    from coterie.broker.folder_check import check_folder
    from coterie.broker.storage.disk import DataFolderInUse, folder_trouble, raise_open_file_limit

    raise_open_file_limit()
    try:
        checked = check_folder(folder)
    except DataFolderInUse as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(folder_trouble(folder, error)) from error
    findings = checked.findings
    if not checked.logs and not findings and not (folder / "meta.properties").exists():
        raise click.ClickException(f"{folder} has no logs; name the data folder of a broker (its --data or log.dirs)")
    if as_json:
        rows: list[FolderFinding] = [
            {"file": f.file, "position": f.position, "problem": f.problem, "action": f.action} for f in findings
        ]
        document: CheckedFolder = {"logs": checked.logs, "bytes": checked.size, "findings": rows}
        write_json(document)
    else:
        write_lines(str(finding) for finding in findings)
        read = f"{quantity(checked.logs, 'log')} with {quantity(checked.size, 'byte')} read"
        count = quantity(len(findings), "finding")
        what = f"{count}; a start would do what follows the semicolon" if findings else "nothing is damaged"
        write_line(f"{read}: {what}")
    sys.exit(1 if findings else 0)


@log.command("bootstrap")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--release", type=click.Choice(["4.3", "4.4"]), required=True, help="The release of Apache Kafka that is to start."
)
def bootstrap(folder: Path, release: str) -> None:
    """Write what Apache Kafka needs to take over a folder of coterie.

    Kafka (KRaft) knows the topics of a folder by its metadata log alone; a new one begins with the file
    bootstrap.checkpoint. It gets the topics with their ids and settings, the settings of groups, the feature levels and
    the next producer id. Quotas, users and ACLs are not handed over.

    The broker must be stopped, and must have stopped cleanly.
    """
    from coterie.broker.kafka_bootstrap import CannotHandOver, hand_over
    from coterie.broker.storage.disk import DataFolderInUse, folder_trouble, raise_open_file_limit
    from coterie.log.checked_files import UnreadableFile

    raise_open_file_limit()
    try:
        handed = hand_over(folder, release)
    except (CannotHandOver, DataFolderInUse, UnreadableFile) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(folder_trouble(folder, error)) from error
    what = f"{quantity(handed.topics, 'topic')} with {quantity(handed.partitions, 'partition')}"
    write_line(
        f"bootstrap.checkpoint has {what}; start Kafka {release} with log.dirs={folder} and node.id={handed.node_id}"
    )
