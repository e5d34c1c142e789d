"""What the terminal and the editor fix alike: a target, or a program by its calls of each thing that it compiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fuselight_server.execution.runs.planning import program_calls
from fuselight_server.fixes.verification.fixer import FixTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.fixes.verification.fixer import Fixer, FixOptions

T = TypeVar("T", bound=FixTarget)


async def parts_of(
    target: T, token: CancelToken, report: Report, with_request: Callable[[RunRequest], T]
) -> list[tuple[T, Report]]:
    """Return what fixes of a target are verified for, each with its report: the calls of a program, or itself.

    `with_request` makes the target of a call.
    """
    parts = [with_request(request) for request in program_calls(target.request, report)]
    return [(part, await token.run(part.report(part.request))) for part in parts] or [(target, report)]


async def fix_part(
    fixer: Fixer, target: FixTarget, token: CancelToken, first: Report, asked: FixOptions
) -> Report:
    """Fix the findings of a part on top of the fixes so far; returns its report of the last text.

    `first`: its report without any fix, which counts while no file that it read has changed.
    """
    is_changed = bool(fixer.texts.keys() & first.files.keys())
    report = await token.run(target.report(fixer.request(target))) if is_changed else first
    return await token.run(fixer.fix(target, report, asked))
