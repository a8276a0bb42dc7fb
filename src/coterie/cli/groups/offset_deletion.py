"""`coterie groups delete-offsets`: what a group has committed of some topics is deleted, also of a share group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli.parts.completion import complete_groups, complete_topics
from coterie.cli.parts.invocation import broker_option, json_option, run, show
from coterie.cli.parts.partial_results import end_with

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import DeletedOffset
    from coterie.client import KafkaError


@click.command("delete-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic",
    "-t",
    "topic_names",
    multiple=True,
    required=True,
    shell_complete=complete_topics,
    help="The offsets of this topic; may be given again.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@broker_option
@json_option
def delete_offsets(
    group: str, topic_names: tuple[str, ...], dry_run: bool, client: dict[str, str], as_json: bool
) -> None:
    """Delete what a group has committed of topics.

    No member may read them. A share group must have no members; it loses its start offsets and the states of its records there.
    """
    offsets, errors = run(_delete(group, client, topic_names, dry_run))
    rows = [(each["topic"], each["partition"], each["offset"]) for each in offsets]
    empty = f"{group} has no offsets in {', '.join(topic_names)}"
    show(offsets, as_json, ["TOPIC", "PARTITION", "OFFSET"], rows, empty)
    end_with(errors)


async def _delete(
    group: str, client: dict[str, str], names: tuple[str, ...], dry_run: bool
) -> tuple[list[DeletedOffset], list[KafkaError]]:
    from coterie.client import Admin
    from coterie.client.admin.offset_resets import delete_offsets as delete

    async with Admin(client) as admin:
        deleted, errors = await delete(admin, group, names, dry_run=dry_run)
    return [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in deleted], errors
