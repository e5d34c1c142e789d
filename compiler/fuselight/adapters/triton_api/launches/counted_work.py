"""What a launch on a GPU does, counted after the run as without a GPU: its estimated time is made of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.forked_query import Ended, ask_apart
from fuselight.adapters.triton_api.launches.argument_copies import TensorCopy
from fuselight.adapters.triton_api.launches.interpretation import Interpretation
from fuselight.adapters.triton_api.launches.launch_work import LaunchWork
from fuselight.adapters.triton_api.launches.record import LaunchStopped

if TYPE_CHECKING:
    from fuselight.adapters.triton_api.launches.absent_kernel import CompileArguments
    from fuselight.adapters.triton_api.launches.specializations import LaunchedSpecialization

MAX_SECONDS = 2.0
"""Of processor time, of the programs of one launch: as without a GPU."""
_MAX_CHILD_SECONDS = 20.0


def count_work(specialization: LaunchedSpecialization) -> None:
    """Note what the first launch does, where that is not known yet."""
    arguments, grid = specialization.arguments, specialization.grid
    if specialization.work is None and arguments is not None and grid is not None:
        specialization.work = _work(specialization.request, arguments, grid)


def _work(
    request: CompileArguments, arguments: Mapping[str, Any], grid: tuple[int, ...]
) -> LaunchWork | None:
    """Compute some programs of a launch in a child, and return what all of them do; None where that cannot be."""
    try:
        answer = json.loads(ask_apart(lambda _: _counted(request, arguments, grid), _MAX_CHILD_SECONDS))
    except (Ended, ValueError):
        return None
    return LaunchWork(**answer) if answer else None


def _counted(request: CompileArguments, arguments: Mapping[str, Any], grid: tuple[int, ...]) -> bytes:
    x, y, z = (*grid, 1, 1)[:3]
    interpretation = None
    with contextlib.suppress(Exception, LaunchStopped):  # the interpreter raises what it likes
        bound = {
            name: value.tensor(names.interpreter().np) if isinstance(value, TensorCopy) else value
            for name, value in arguments.items()
        }
        interpretation = Interpretation(request.function, (x, y, z), MAX_SECONDS)
        interpretation.run(bound, request.signature)
    work = interpretation.work() if interpretation is not None else None
    return json.dumps(dataclasses.asdict(work) if work is not None else None).encode()
