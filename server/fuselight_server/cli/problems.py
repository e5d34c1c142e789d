"""What a command could not do, on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.terminal import print_error

if TYPE_CHECKING:
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.upgrade import UpgradeOutcome

NO_TARGET = (
    "no target. Name a class or function with --target, or write example inputs above it: "
    "`# fuselight: Net()(f32[8, 16])` (docs/inputs.md)"
)


def report_problems(outcome: CheckOutcome | UpgradeOutcome, verb: str, *, is_empty: bool = False) -> None:
    """Say on stderr what could not be done; `is_empty`: there was no target at all."""
    for problem in outcome.problems:
        print_error(f"cannot {verb} {problem.what}: {problem.why}")
    if is_empty and not outcome.problems:
        for why in outcome.uncalled or [NO_TARGET]:
            print_error(why)
