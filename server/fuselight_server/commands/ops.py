"""What the calls of targets decompose into, and which operators a backend lacks.

Invariant: no kernel is generated and nothing is launched.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.protocol import DecomposeRequest
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each

NAMED = ("core-aten", "prims", "inductor")
"""The sets that need no file."""
_OPERATOR = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}")


def read_operator_set(name: str) -> tuple[str, ...]:
    """The operators of a file, or the name of a set that needs no file. Raises CommandError."""
    if name in NAMED:
        return (name,)
    try:
        text = read_regular(name).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        near = difflib.get_close_matches(name, NAMED, 1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise CommandError(
            f"`{name}` is neither a set ({', '.join(NAMED)}) nor a readable file of operators: {reason}.{hint}"
        ) from None
    operator_set: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        operator = line.partition("#")[0].strip().removeprefix("torch.ops.").replace("::", ".")
        if not operator:
            continue
        if operator not in NAMED and not _OPERATOR.fullmatch(operator):
            raise CommandError(
                f"{name}, line {number}: `{operator}` is not an operator. "
                "Write one per line, such as aten.add.Tensor or aten.add."
            )
        operator_set.setdefault(operator)
    if not operator_set:
        raise CommandError(
            f"{name} has no operators. Write one per line, such as aten.add.Tensor or aten.add."
        )
    return tuple(operator_set)


async def read_operators(
    options: CommandOptions, show: Callable[[str], None], token: CancelToken, operator_set: tuple[str, ...]
) -> CheckOutcome:
    """The operators of every target, one after the other in one worker."""

    async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
        request = target_run.request.of_kind(DecomposeRequest, operator_set=operator_set)
        return await target_run.run_report(request)

    return await report_each(options, show, token, report_of)
