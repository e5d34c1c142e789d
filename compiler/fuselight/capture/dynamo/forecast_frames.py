"""Functions of which one call is kept, to ask what other inputs would compile again."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from fuselight.adapters.torch_api import settings
from fuselight.capture.dynamo import guards, stacks
from fuselight.capture.dynamo.forecast import (
    CompiledFrame,
    copied_locals,
    does_something_at_its_end,
    forecast,
)
from fuselight.capture.dynamo.wrappers import Callee
from fuselight.shared.report import FrameForecast

FORECAST_FRAMES = 16
"""Functions, and parts of functions after graph breaks, of which the locals of one call stay alive during the run."""


class ForecastFrames:
    """The locals of the last compiled call of some functions: the first one that compiles, and the user's."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._frames: dict[CodeType, CompiledFrame] = {}

    def keep_locals(self, code: CodeType, callee: Callee, f_locals: Mapping[str, object]) -> None:
        """Keep arguments and limit of a call that compiles, unless an object of theirs acts when it is freed."""
        # The first function is the target itself: a model of a library is forecast like the user's.
        first = next(iter(self._frames.values())).callee if self._frames else callee
        is_asked = callee.location == first.location or stacks.is_user_code(callee.location.path, self._roots)
        if self._frames and does_something_at_its_end(f_locals):
            self._frames.pop(code, None)
        elif code in self._frames or (is_asked and len(self._frames) < FORECAST_FRAMES):
            self._frames[code] = CompiledFrame(
                code, callee, copied_locals(f_locals), settings.recompile_limit()
            )

    def forecasts(
        self,
        births: weakref.WeakKeyDictionary[Any, guards.Births],
        unrecorded: Callable[[], contextlib.AbstractContextManager[None]],
        broke: Callable[[Exception], None],
    ) -> tuple[FrameForecast, ...]:
        """What would compile each function again, asked inside of `unrecorded()`; an error goes to `broke`."""
        forecasts = []
        for frame in self._frames.values():
            try:
                with unrecorded():
                    forecasts.append(forecast(frame, births, self._roots))
            except Exception as error:  # noqa: BLE001 - the report is worth more than its forecast
                broke(error)
        return tuple(frame_forecast for frame_forecast in forecasts if frame_forecast is not None)
