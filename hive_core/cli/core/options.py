"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from typing_extensions import override
else:  # importing typing_extensions would cost a tenth of the start

    def override(method: object) -> object:
        return method


AGENT_STATES: Final = (
    "absent", "starting", "running", "degraded", "stopping", "stopped", "sleeping", "failed",
    "parked", "deploying",
)  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


class Renamed(click.Option):
    """An option with an older name, `old`, which works for one more release and is hidden.

    Scripts that use the old name still work.
    """

    def __init__(self, *words: Any, old: str, **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*words, **attributes)
        self._old = old

    @override
    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's, and renamed in 8.2
        names = self.opts
        self.opts = [*names, self._old]
        super().add_to_parser(parser, ctx)
        self.opts = names


def reason_option(help_: str, *, required: bool = False) -> Callable[[F], F]:
    """`--reason TEXT`, which is `reason` of the callback."""
    default = {} if required else {"default": ""}
    return click.option("--reason", cls=Renamed, old="--why", required=required, metavar="TEXT",
                        help=help_, **default)  # fmt: skip


no_wait_option: Final = click.option(
    "--no-wait",
    is_flag=True,
    help="Return once the change is recorded; do not wait for its effect.",
)
yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
