"""Groups of commands: `CommandGroup` names what was meant, and `VerbGroup` is a program's first level, whose verbs are imported
when they are used."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from coterie.cli.parts.exit_codes import exit_code, output_errors
from coterie.runtime.interruption import started


class CommandGroup(click.Group):
    """Raises UsageError for an unknown command, with what there is."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; the error names the command that was meant, or all of them."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches  # a millisecond of each start

            begun = sorted((name for name in names if args[0].startswith(name)), key=len, reverse=True)
            close = begun or get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(names)}."
            ctx.fail(f"{ctx.command_path} has no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


class VerbGroup(CommandGroup):
    """``verbs``: verb -> the module that has the command of that name, and its line in `--help`. ``collects_later``: the verbs
    that enable the garbage collection by themselves, once they have started."""

    def __init__(
        self, *args: Any, verbs: Mapping[str, tuple[str, str]], collects_later: Sequence[str] = (), **extra: Any
    ) -> None:
        super().__init__(*args, **extra)
        self._verbs, self._collects_later = verbs, collects_later

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Imports the verb's module."""
        if name not in self._verbs:
            return None
        command: click.Command = getattr(importlib.import_module(self._verbs[name][0]), name.replace("-", "_"))
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Ends with SystemExit, unless ``standalone_mode`` is False, as click's."""

        def work() -> Any:
            try:
                return super(VerbGroup, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)
            except click.NoSuchOption as error:
                from coterie.cli.parts.kafka_options import explained

                raise explained(error) from None

        if not standalone_mode:
            return work()
        sys.exit(exit_code(work))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with output_errors():  # --help and --version are written here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """A missing optional dependency ends a command with its sentence."""
        try:
            with output_errors():
                return super().invoke(ctx)
        except ImportError as error:
            from coterie.runtime.extras import explain

            text = explain(error, f"{ctx.command_path} {ctx.invoked_subcommand}")
            if text is None:
                raise
            raise click.ClickException(text) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in self._verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As `CommandGroup`; what follows is the command's own time, with the garbage collection."""
        resolved = super().resolve_command(ctx, args)
        if resolved[0] not in self._collects_later:
            gc.enable()  # `program.run` disabled it
        started()
        return resolved
