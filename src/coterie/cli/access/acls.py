"""`coterie acls`: the ACLs of any Kafka, and which of them decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.authorizer.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)
from coterie.authorizer.authorizer import Authorizer, is_network
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.exit_codes import end_with
from coterie.cli.parts.invocation import broker_option, json_option, run, show
from coterie.console.terminal import write_line

if TYPE_CHECKING:
    from coterie.cli.parts.json_documents import AccessRuling, AclRow
    from coterie.client.errors import KafkaError

F = TypeVar("F", bound=Callable[..., Any])
_OPERATIONS = [operation.name for operation in AclOperation if operation > AclOperation.ANY]
_WHICH_OPERATIONS = f"What: {', '.join(_OPERATIONS)}."
_HEADERS = ["PERMISSION", "PRINCIPAL", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]


def _resource_options(command: F) -> F:
    """One of the options that name a resource."""
    for option in (
        click.option(
            "--user-principal", metavar="User:NAME", help="A user whose delegation tokens are made or described."
        ),
        click.option("--delegation-token", metavar="ID", help="A delegation token."),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--transactional-id", metavar="NAME", help="A transactional id."),
        click.option("--group", metavar="NAME", help="A group."),
        click.option("--topic", metavar="NAME", help="A topic; * for every one."),
    ):
        command = option(command)
    return command


def _entry_options(command: F) -> F:
    for option in (
        click.option("--prefixed", is_flag=True, help="The name is a prefix of names."),
        click.option("--host", metavar="ADDRESS", default=WILDCARD, help="An address or network; * by default."),
        click.option("--deny", is_flag=True, help="An entry that denies, and not one that allows."),
        click.option(
            "--operation",
            "operations",
            multiple=True,
            required=True,
            type=click.Choice(_OPERATIONS, False),
            metavar="OPERATION",
            help=_WHICH_OPERATIONS,
        ),
        click.option("--principal", required=True, metavar="User:NAME", help="Who; User:* for everybody."),
    ):
        command = option(command)
    return _resource_options(command)


def _named(names: Mapping[str, Any]) -> list[tuple[AclResourceType, str]]:
    """Type and name of each resource that an option of `_resource_options` names."""
    pairs = (
        (AclResourceType.TOPIC, names["topic"]),
        (AclResourceType.GROUP, names["group"]),
        (AclResourceType.TRANSACTIONAL_ID, names["transactional_id"]),
        (AclResourceType.CLUSTER, CLUSTER_NAME if names["cluster"] else None),
        (AclResourceType.DELEGATION_TOKEN, names["delegation_token"]),
        (AclResourceType.USER, names["user_principal"]),
    )
    return [(kind, name) for kind, name in pairs if name is not None]


def _one(named: list[tuple[AclResourceType, str]]) -> tuple[AclResourceType, str]:
    if len(named) != 1:
        options = "--topic, --group, --transactional-id, --cluster, --delegation-token or --user-principal"
        raise click.UsageError(f"Name one resource: {options}.")
    return named[0]


def _row(acl: Acl) -> AclRow:
    return {
        "permission": acl.permission.name,
        "principal": acl.principal,
        "operation": acl.operation.name,
        "resource": acl.resource_type.name,
        "name": acl.name,
        "pattern": acl.pattern_type.name,
        "host": acl.host,
    }


def _show(acls: list[Acl], as_json: bool, none: str) -> None:
    rows = [_row(acl) for acl in acls]
    show(rows, as_json, _HEADERS, [tuple(row.values()) for row in rows], none)


def _show_done(acls: list[Acl], as_json: bool, none: str, refused: Mapping[Any, KafkaError]) -> None:
    """What was done, and a sentence for each refusal; exits with 1 where there is one."""
    if acls or not refused:
        _show(acls, as_json, none)
    end_with(
        f"{key.operation.name} on {key.resource_type.name.lower()} {key.name}: {error}" if acls else str(error)
        for key, error in refused.items()
    )


@click.group(
    cls=CommandGroup,
    epilog="""\b
Examples:
  coterie acls list --topic orders
  coterie acls add --principal User:alice --operation read --topic orders
  coterie acls add --principal User:al --operation read --group cr --prefixed
  coterie acls why --principal User:alice --operation read --group crew
  coterie acls remove --principal User:alice --operation read --topic orders
""",
)
def acls() -> None:
    """List, add, remove and explain ACLs."""


@acls.command("list")
@click.option("--principal", metavar="User:NAME", help="The ACLs of this principal alone.")
@_resource_options
@broker_option
@json_option
def list_acls(
    principal: str | None,
    client: dict[str, str],
    as_json: bool,
    **names: Any,
) -> None:
    """List the ACLs, of all resources or about one."""
    named = _named(names)
    kind, name = _one(named) if named else (AclResourceType.ANY, None)
    wanted = AclFilter(kind, name, PatternType.MATCH if named else PatternType.ANY, principal)
    _show(_described(client, wanted), as_json, "there are no such ACLs")


def _described(client: dict[str, str], wanted: AclFilter) -> list[Acl]:
    from coterie.client.admin.admin import Admin

    async def call() -> list[Acl]:
        async with Admin(client) as admin:
            return await admin.describe_acls(wanted)

    described: list[Acl] = run(call())
    return described


@acls.command()
@_entry_options
@broker_option
@json_option
def add(client: dict[str, str], as_json: bool, operations: tuple[str, ...], **entry: Any) -> None:
    """Add ACLs, one for each operation."""
    from coterie.client.admin.admin import Admin

    _check_covers_hosts(entry["host"])
    entries = [_entry(operation, **entry) for operation in operations]

    refused: dict[Acl, KafkaError] = {}

    async def call() -> None:
        async with Admin(client) as admin:
            await admin.create_acls(entries, errors=refused)

    run(call())
    _show_done([entry for entry in entries if entry not in refused], as_json, "", refused)


@acls.command()
@_entry_options
@broker_option
@json_option
def remove(client: dict[str, str], as_json: bool, operations: tuple[str, ...], **entry: Any) -> None:
    """Remove ACLs, one for each operation.

    One that is not there is passed over.
    """
    from coterie.client.admin.admin import Admin

    filters = [AclFilter(*_entry(operation, **entry)) for operation in operations]

    refused: dict[AclFilter | Acl, KafkaError] = {}

    async def call() -> list[Acl]:
        async with Admin(client) as admin:
            return await admin.delete_acls(filters, errors=refused)

    _show_done(run(call()), as_json, "there were no such ACLs", refused)


def _entry(operation: str, *, principal: str, deny: bool, host: str, prefixed: bool, **names: Any) -> Acl:
    kind, name = _one(_named(names))
    _check_operation(AclOperation[operation.upper()], kind)
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(kind, name, pattern, principal, host, AclOperation[operation.upper()], permission)


def _check_operation(operation: AclOperation, kind: AclResourceType) -> None:
    """Raises UsageError for one that the kind of resource does not have (Kafka's AclCommand)."""
    if operation is not AclOperation.ALL and operation not in OPERATIONS_OF[kind]:
        there_are = ", ".join(each.name.lower() for each in (AclOperation.ALL, *OPERATIONS_OF[kind]))
        resource = kind.name.lower().replace("_", " ")
        raise click.UsageError(f"A {resource} has no operation {operation.name.lower()}; there are {there_are}.")


def _check_covers_hosts(host: str) -> None:
    """Raises UsageError for a host of an entry that no client can have."""
    if host != WILDCARD and not is_network(host):
        raise click.UsageError(f"{host} is no address and no network; an ACL about it would never apply.")


@acls.command()
@click.option("--principal", required=True, metavar="User:NAME", help="The principal of the request.")
@click.option(
    "--operation",
    required=True,
    type=click.Choice(_OPERATIONS, False),
    metavar="OPERATION",
    help=_WHICH_OPERATIONS,
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="From where.")
@click.option(
    "--super-user", "super_users", multiple=True, metavar="User:NAME", help="One of the broker's super.users."
)
@click.option("--allow-everyone", is_flag=True, help="The broker has allow.everyone.if.no.acl.found=true.")
@_resource_options
@broker_option
@json_option
def why(
    principal: str,
    operation: str,
    host: str,
    super_users: tuple[str, ...],
    allow_everyone: bool,
    client: dict[str, str],
    as_json: bool,
    **names: Any,
) -> None:
    """Show which rule allows or denies a request.

    By the ACLs that the cluster has now. Two settings of its brokers are not among them: give them by the options.
    """
    kind, name = _one(_named(names))
    if "/" in host or not is_network(host):
        raise click.UsageError(f"{host} is no address: a client is known by its IP address.")
    authorizer = Authorizer(_described(client, AclFilter()), super_users, allows_without_acl=allow_everyone)
    ruling = authorizer.decide(principal, host, AclOperation[operation.upper()], kind, name)
    document: AccessRuling = {
        "allowed": ruling.is_allowed,
        "reason": ruling.reason.name.lower(),
        "acl": None if ruling.acl is None else _row(ruling.acl),
    }
    if as_json:
        show(document, as_json, [], [])
    else:
        write_line(ruling.text)
    raise SystemExit(0 if ruling.is_allowed else 1)
