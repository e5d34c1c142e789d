"""A start of the user's program, with the compile caches in a folder and torch's structured log in another.

Invariant: torch.compile gets what the source gives it, and no setting of torch is changed but those of the request.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets, trace_logs
from fuselight.capture import dynamo
from fuselight.capture.calls.importing import module_place
from fuselight.capture.calls.logged_compiles import logged_compiles
from fuselight.capture.calls.rungs import Answered
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.protocol import LoggedStartRequest
from fuselight.shared.report import Problem
from fuselight.worker.child.import_timing import time_imports
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, make_calls


@dataclass
class LoggedStart:
    """Makes each call of the target once, as the source compiles it (target_run.RunStrategy)."""

    runs_main: bool = True

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, LoggedStartRequest):
            raise TypeError(f"{type(request).__name__} does not say where to log")
        with logged_compiles(request.log, request.cache), targets.replaced_compile(_as_asked, _as_asked):
            _set(state, request.settings)
            yield dynamo.CompileCalls()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb, names
        make_calls(state, answered)


def record_imports(state: RunState) -> None:
    """Time the imports of the target's file and have the log begin with them, if the request asks for that."""
    request = state.job.request
    if not isinstance(request, LoggedStartRequest) or not request.times_imports:
        return
    path = request.inputs.main_path or request.target.path
    if path.endswith(SUFFIX):
        return  # of a notebook only some cells run
    state.progress.tell(
        "import", f"{os.path.basename(path)}, timed in a process of its own", path, request.target.line
    )
    is_program = request.target.kind in {"main", "call"} or not request.target.name
    imports = time_imports(request, None if is_program else module_place(path), state.job.directory)
    if imports is None:
        what = "the imports of the file could not be timed"
        state.problems.append(Problem("imports", what, "the process for it left no result"))
    else:
        trace_logs.record_imports(imports)


def _set(state: RunState, values: Mapping[str, bool]) -> None:
    for name, value in values.items():
        try:
            settings.set_torch_setting(name, value)
        except (AttributeError, TypeError, ValueError) as error:
            state.problems.append(Problem("settings", name, str(error)))


def _as_asked(real: Callable[..., Any], *given: Any, **asked: Any) -> Any:
    return real(*given, **asked)
