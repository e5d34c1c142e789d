"""Accuracy check of one configuration: compares its results with eager's and searches for the first line that differs.

Invariant: the verdict exists before anything is compiled to explain it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise
from fuselight.capture.calls.tensors import SEED
from fuselight.measure.accuracy import bisection, results, rules
from fuselight.measure.accuracy.held_numbers import as_captured, hold_numbers
from fuselight.measure.accuracy.results import CallResults
from fuselight.measure.accuracy.rounding import with_rounding
from fuselight.measure.session import ConfigurationSession
from fuselight.shared.report import Accuracy

CompareResults = Callable[[CallResults], Accuracy]
_EAGERS_NUMBERS = "compared with eager's random numbers: the same seed, compiled with fallback_random"
_HELD_NUMBERS = (
    "compared with the masks of dropout held fixed in both, because compiled code draws other numbers"
)


@dataclass
class AccuracyCheck:
    """Compares the results of one configuration with eager's."""

    session: ConfigurationSession
    again: Callable[[int], CallResults]
    """Builds the target again and makes a first call with this seed."""
    _differing: CompareResults | None = field(default=None, init=False)
    """The last comparison, if the first call was what differed."""
    _holds: bool = field(default=False, init=False)
    """Whether that comparison held random numbers fixed."""

    def compare(
        self,
        *,
        eager: str | None = None,
        float64: str | None = None,
        why: str = "",
        varies: str = "",
        drawn: Sequence[str] = (),
    ) -> None:
        """Compare the results with those in the files `eager` and `float64`; `why` says why `float64` is missing.

        `varies` says how eager's results differ from call to call, if they do, and `drawn` which functions draw.
        """
        session = self.session
        if eager is None or session.results is None:
            session.store_accuracy(rules.not_compared("eager gave no results to compare with"))
            return
        if varies:
            session.store_accuracy(rules.varying(varies, drawn))
            return
        expected = results.load(eager)
        compare = self._comparison_with(expected, float64, why)
        verdict = compare(session.results)
        if verdict.passed is False:
            verdict = with_rounding(verdict, session.results, expected, self._with_noise)
        if verdict.passed is False:
            self._differing = compare
            verdict = rules.with_note(verdict, of_tf32(session.device, session.results))
        elif verdict.passed and session.replayed is not None:
            replay = compare(session.replayed)
            if replay.passed is False:  # no line is responsible, and a bisection repeats first calls only
                words = f"the first call is right, a replay of its CUDA graph not: {replay.why}"
                verdict = replace(replay, why=words)
        session.store_accuracy(verdict)

    def _with_noise(self, seed: int) -> CallResults | None:
        """The results of a first call in eager mode, with other rounding."""
        try:
            with torch.compiler.set_stance("force_eager"), RoundingNoise(seed):
                return self.again(SEED)
        except Exception:  # noqa: BLE001 - an operator or a subclass of the user's may refuse a mode
            return None

    def compare_random(self, *, eager: str | None = None, float64: str | None = None, why: str = "") -> None:
        """Compile again with eager's random numbers and compare the results.

        Nothing is measured afterwards. Results that differ may come of numbers that were drawn in another order: then
        eager and compiled code are compared with the same fixed numbers.
        """
        session = self.session
        if eager is None or session.compiled.suspect is None:
            return
        is_eager = self._comparison_with(results.load(eager), float64, why)
        try:
            with settings.eager_random_numbers():
                verdict = is_eager(self._tried(_unchanged))
            if verdict.passed:
                session.store_accuracy(rules.with_note(verdict, _EAGERS_NUMBERS))
            elif is_eager(self._tried(as_captured)).passed:  # the capture is right, and draws as eager does
                self._compare_held()
        except Exception:  # noqa: BLE001 - whatever it is, the results stay not compared
            return
        finally:
            torch.compiler.reset()

    def _compare_held(self) -> None:
        """Compare eager and compiled code with fixed masks; nothing is compared where other numbers are drawn, too."""
        self._holds = True
        held = [self._tried(as_captured, seed) for seed in (SEED, SEED + 1)]
        if rules.is_random(*held):
            return

        compare = self._comparison_with(held[0])
        verdict = compare(self._tried(_unchanged))
        if verdict.passed is False:
            self._differing = compare
        self.session.store_accuracy(rules.with_note(verdict, _HELD_NUMBERS))

    def _comparison_with(
        self, expected: CallResults, float64: str | None = None, why: str = ""
    ) -> CompareResults:
        """Compares results with eager's and those in the file `float64`; `why` says why there is no such file."""
        return functools.partial(
            rules.compare_results,
            eager=expected,
            float64=results.load(float64) if float64 else None,
            training=self.session.unit.prepared.options.train,
            no_float64=why,
            device=self.session.device if self.session.device.type == "cuda" else None,
        )

    def search(self, seconds: float) -> None:
        """Search for the first line that differs for up to `seconds`. Nothing is measured afterwards."""
        session, compare = self.session, self._differing
        suspect, verdict = session.compiled.suspect, session.row.accuracy
        if compare is None or suspect is None or verdict is None:
            return
        generated = session.compiled.graphs  # read now: later compiles are not those of the target
        first = bisection.find_first(
            self._tried,
            suspect,
            compare,
            seconds=seconds,
            first_seconds=(session.row.first_us or 0.0) / 1e6,
        )
        session.store_accuracy(bisection.with_first(verdict, first, generated))

    def _tried(self, backend: Callable[..., Any], seed: int = SEED) -> CallResults:
        def held(gm: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
            hold_numbers(gm)
            compiled: Callable[..., Any] = backend(gm, inputs, **options)
            return compiled

        torch.compiler.reset()  # otherwise Dynamo reuses the code of the call before
        with self.session.compiled.replaced_by(held if self._holds else backend):
            return self.again(seed)


def _unchanged(gm: Any, inputs: Any, *, suspect: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A backend that compiles like the suspect but keeps no record."""
    function: Callable[..., Any] = suspect(gm, inputs, **options)
    return function


def of_tf32(device: torch.device, given: CallResults) -> str:
    """Explain TF32 rounding for float32 results of a GPU that may use it; empty otherwise."""
    if device.type != "cuda" or not any(value.dtype == "torch.float32" for value in given.values):
        return ""
    backends: Any = torch.backends
    try:
        allowed = backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32
        without = "torch.backends.cudnn.allow_tf32 = False"
    except RuntimeError:  # the program uses torch's newer settings (2.9 and later)
        allowed = "tf32" in (backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision)
        without = 'torch.backends.cudnn.conv.fp32_precision = "ieee"'
    if not allowed:
        return ""
    return (
        "TF32 is allowed here, which rounds what is multiplied to 10 bits, and not every kernel uses it: compare "
        f"without it to see whether it is that ({without}, and the same for torch.backends.cuda.matmul)"
    )
