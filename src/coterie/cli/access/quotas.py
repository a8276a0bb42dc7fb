"""`coterie quotas`: the client quotas of any Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import broker_option, done, json_option, run, settings_option, show

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import QuotaRow
    from coterie.client.types import ClientQuotaEntity

F = TypeVar("F", bound=Callable[..., Any])


def _entity_options(command: F) -> F:
    for option in (
        click.option("--ip", metavar="ADDRESS", help="An address; empty for the default of all."),
        click.option("--client-id", metavar="NAME", help="A client id; empty for the default of all."),
        click.option("--user", metavar="NAME", help="A user; empty for the default of all."),
    ):
        command = option(command)
    return command


def _entity(user: str | None, client_id: str | None, ip: str | None) -> ClientQuotaEntity:
    given = (("client-id", client_id), ("ip", ip), ("user", user))
    entity = tuple((kind, name or None) for kind, name in given if name is not None)
    if not entity:
        raise click.UsageError("Name a --user, a --client-id, both, or an --ip.")
    return entity


def _text(entity: ClientQuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie quotas list
  coterie quotas set --user alice --quota producer_byte_rate=1048576
  coterie quotas set --client-id "" --quota request_percentage=50
  coterie quotas remove --user alice producer_byte_rate
""",
)
def quotas() -> None:
    """List, set and remove client quotas."""


@quotas.command("list")
@broker_option
@json_option
def list_quotas(client: dict[str, str], as_json: bool) -> None:
    """List the quotas of users, client ids and addresses."""
    rows: list[QuotaRow] = [
        {"entity": dict(entity), "quota": key, "value": value}
        for entity, values in sorted(_described(client).items(), key=repr)
        for key, value in values.items()
    ]
    cells = [(_text(tuple(row["entity"].items())), row["quota"], f"{row['value']:g}") for row in rows]
    show(rows, as_json, ["ENTITY", "QUOTA", "VALUE"], cells, "there are no quotas")


def _described(client: dict[str, str]) -> dict[ClientQuotaEntity, dict[str, float]]:
    from coterie.client import Admin

    async def call() -> dict[ClientQuotaEntity, dict[str, float]]:
        async with Admin(client) as admin:
            return await admin.describe_client_quotas()

    described: dict[ClientQuotaEntity, dict[str, float]] = run(call())
    return described


def _alter(client: dict[str, str], entity: ClientQuotaEntity, changes: dict[str, float | None]) -> None:
    from coterie.client import Admin

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.alter_client_quotas({entity: changes})

    run(call())


@quotas.command("set")
@_entity_options
@settings_option("--quota", "-q", "values", help_text="A quota, by Kafka's name")
@broker_option
@json_option
def set_quotas(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    values: dict[str, str],
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Set quotas of a user, a client id, both, or an address."""
    entity = _entity(user, client_id, ip)
    if not values:
        raise click.UsageError("Give a --quota NAME=NUMBER.")
    changes: dict[str, float | None] = {}
    for key, value in values.items():
        try:
            changes[key] = float(value)
        except ValueError:
            raise click.UsageError(f"{key} must be a number, not {value!r}.") from None
    _alter(client, entity, changes)
    done(f"the quotas of {_text(entity)} are set", as_json, entity=dict(entity), quotas=changes)


@quotas.command()
@click.argument("names", nargs=-1, required=True)
@_entity_options
@broker_option
@json_option
def remove(
    names: tuple[str, ...],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    client: dict[str, str],
    as_json: bool,
) -> None:
    """Remove quotas by their names.

    One that is not there is passed over.
    """
    entity = _entity(user, client_id, ip)
    there = _described(client).get(entity, {})
    removed: dict[str, float | None] = {name: None for name in names if name in there}
    if removed:
        _alter(client, entity, removed)
    text = f"of {_text(entity)}"
    text = f"{', '.join(removed)} {text} removed" if removed else f"there were no such quotas {text}"
    done(text, as_json, entity=dict(entity), quotas=removed)
