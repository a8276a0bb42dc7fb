"""`coterie users`: who may log in by SCRAM and PLAIN, at any Kafka or in a file of users."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import click

from coterie.authentication.sasl import HASHES, MIN_ITERATIONS
from coterie.cli.parts.commands import CommandGroup
from coterie.cli.parts.invocation import broker_option, json_option, run, show
from coterie.console.terminal import write_line
from coterie.text.files import NotText

EPILOG = """\b
Examples:
  coterie users add alice
  coterie users add alice --file ./users
  coterie users list --command-config admin.properties
  coterie users remove alice

The password is prompted for, or read from the first line of standard input. A file is for the broker's setting
coterie.sasl.users.file; it has salted passwords, and its owner alone can read it.
"""

mechanism_option = click.option(
    "--mechanism",
    type=click.Choice(list(HASHES)),
    default="SCRAM-SHA-512",
    show_default=True,
    help="The mechanism of SCRAM.",
)
file_option = click.option(
    "--file", type=click.Path(dir_okay=False, path_type=Path), help="A file of users, instead of a cluster."
)


@click.group(cls=CommandGroup, epilog=EPILOG)
def users() -> None:
    """Add, list and remove users that log in by SASL.

    They are those of any Kafka from 2.7 on, or of a file. A cluster's users log in by SCRAM, a file's by PLAIN too.
    """


@users.command()
@click.argument("name")
@mechanism_option
@file_option
@broker_option
def add(name: str, mechanism: str, file: Path | None, client: dict[str, str]) -> None:
    """Add a user, or change the password of one."""
    from coterie.client import Admin, UserScramCredentialUpsertion

    password = _password()
    if file is not None:
        _write(
            file,
            [*(line for line in _lines(file) if not _is_of(line, name, mechanism)), _line(name, mechanism, password)],
        )
    else:

        async def call() -> None:
            async with Admin(client) as admin:
                await admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, mechanism, password)])

        run(call())
    write_line(f"user {name} logs in by {mechanism}{'' if file is None else ' or PLAIN'}")


@users.command()
@click.argument("name")
@mechanism_option
@file_option
@broker_option
def remove(name: str, mechanism: str, file: Path | None, client: dict[str, str]) -> None:
    """Remove a user's credential of one mechanism."""
    from coterie.client import Admin, UserScramCredentialDeletion

    if file is not None:
        before = _lines(file)
        left = [line for line in before if not _is_of(line, name, mechanism)]
        if len(left) == len(before):
            raise click.ClickException(
                f"{file} has no user {name} with {mechanism}; `coterie users list --file {file}`"
            )
        _write(file, left)
    else:

        async def call() -> None:
            async with Admin(client) as admin:
                await admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)])

        run(call())
    write_line(f"removed {mechanism} of user {name}")


@users.command(name="list")
@file_option
@broker_option
@json_option
def list_(file: Path | None, client: dict[str, str], as_json: bool) -> None:
    """List the users, with their mechanisms. No passwords, salts or keys."""
    from coterie.client import Admin

    async def call() -> dict[str, dict[str, int]]:
        async with Admin(client) as admin:
            return await admin.describe_user_scram_credentials()

    known = run(call()) if file is None else _users_of(file)
    rows = [(user, name, count) for user, mechanisms in known.items() for name, count in mechanisms.items()]
    value = [{"user": user, "mechanism": name, "iterations": count} for user, name, count in rows]
    show(value, as_json, ["USER", "MECHANISM", "ITERATIONS"], rows, "there are no users; `coterie users add NAME`")


def _password() -> str:
    """Asked for on a terminal, else the first line of standard input."""
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("The password is missing: give it on the first line of standard input.")
    return password


def _line(user: str, mechanism: str, password: str) -> str:
    from coterie.authentication.mechanisms import credential_of, salted
    from coterie.broker.clients.users_file import line_of

    salt = secrets.token_bytes(16)
    derived = salted(mechanism, password, salt, MIN_ITERATIONS)
    return line_of(user, mechanism, credential_of(mechanism, derived, salt, MIN_ITERATIONS))


def _is_of(line: str, user: str, mechanism: str) -> bool:
    from coterie.broker.clients.users_file import user_of

    return user_of(line) == (user, mechanism)


def _lines(file: Path) -> list[str]:
    """Of a file that may not be there."""
    from coterie.text.files import decode_properties

    try:
        return decode_properties(file.read_bytes()).splitlines()
    except FileNotFoundError:
        return []
    except (OSError, NotText) as error:
        raise click.ClickException(f"{file} cannot be read: {error}") from error


def _users_of(file: Path) -> dict[str, dict[str, int]]:
    from coterie.broker.clients.users_file import read_users
    from coterie.configuration import SettingError

    try:
        known = read_users(file)
    except SettingError as error:
        raise click.ClickException(str(error)) from error
    by_user: dict[str, dict[str, int]] = {}
    for (user, mechanism), credential in sorted(known.items()):
        by_user.setdefault(user, {})[mechanism] = credential.iterations
    return by_user


def _write(file: Path, lines: list[str]) -> None:
    from coterie.testing.security.certificates import write_secret

    try:
        write_secret(file, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
