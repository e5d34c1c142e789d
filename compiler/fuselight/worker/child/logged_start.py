"""A start of the user's program, with the compile caches in a folder and torch's structured log in another.

Invariant: torch.compile gets what the source gives it, and no setting of torch is changed but those of the request.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api import settings, structured_log
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.inductor import vector_units
from fuselight.capture import dynamo
from fuselight.capture.calls.rungs import Answered
from fuselight.shared.protocol import LoggedStartRequest
from fuselight.shared.report import Problem
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, make_calls

_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


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
        users_caches = vector_units.own_caches()
        for variable, folder in _CACHES.items():
            os.environ[variable] = os.path.join(request.cache, folder)
        os.environ["TORCH_TRACE"] = request.log  # for processes that the program starts
        structured_log.record_to(request.log)
        for name, value in request.settings.items():
            try:
                settings.set_torch_setting(name, value)
            except (AttributeError, TypeError, ValueError) as error:
                state.problems.append(Problem("settings", name, str(error)))
        with vector_units.tested_in(users_caches), targets.replaced_compile(_as_asked, _as_asked):
            try:
                yield dynamo.CompileCalls()
            finally:
                structured_log.flush()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb, names
        make_calls(state, answered)


def _as_asked(real: Callable[..., Any], *given: Any, **asked: Any) -> Any:
    return real(*given, **asked)
