"""A group of commands: a name that is none of them is answered with the one that was meant, or with all of them."""

from __future__ import annotations

import click


class CommandGroup(click.Group):
    """Raises UsageError for an unknown command, with what there is."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; the error names the command that was meant, or all of them."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches  # a millisecond of each start

            close = get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(names)}."
            ctx.fail(f"{ctx.command_path} has no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)
