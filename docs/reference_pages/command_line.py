"""Every command's help, as `--help` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from coterie.cli import VERBS, main


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """(`coterie VERB ...`, the command, its context) of each command, groups before their members."""
    root = click.Context(main, info_name="coterie")
    for verb in VERBS:
        command = main.get_command(root, verb)
        assert command is not None, verb
        yield from _with_members(command, click.Context(command, info_name=verb, parent=root))


def _with_members(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            member = command.get_command(context, name)
            assert member is not None, name
            if not member.hidden:
                yield from _with_members(member, click.Context(member, info_name=name, parent=context))


def command_line() -> str:
    """A heading and the help of each command, 100 columns wide."""
    parts = []
    for path, command, context in commands():
        context.max_content_width = context.terminal_width = 100
        level = "#" * min(len(path.split()), 3)
        parts.append(f"{level} {path}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)
