"""Owns groups of commands that list when none of them is named: `artifacts` is `artifacts ls`."""

from typing import Any

from typer.core import TyperGroup


class Listing(TyperGroup):
    """Puts `ls` in front of what is no command and no plea for help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["ls", *args]
        return super().parse_args(ctx, args)
