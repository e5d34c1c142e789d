"""One configuration's results: compared with eager's, and where they differ, the first line that does.

Invariant: a verdict is given before anything is compiled to explain it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.measure import accuracy, bisection, results
from fuselight.measure.one import One
from fuselight.measure.results import Results
from fuselight.report import Accuracy

Judge = Callable[[Results], Accuracy]


@dataclass
class Judging:
    """Judges what one configuration gave."""

    one: One
    again: Callable[[], Results]
    """Builds the target anew and makes a first call."""
    _judge: Judge | None = field(default=None, init=False)
    """Of the last comparison, if the first call was what differed."""

    def judge(
        self, *, eager: str | None = None, float64: str | None = None, why: str = "", varies: str = ""
    ) -> None:
        """Compare results with those in the files `eager` and `float64`; `why` says why there are none of the second.

        `varies` says that the target gives something else each time.
        """
        one = self.one
        training = one.unit.prepared.options.train
        if eager is None or one.results is None:
            one.judged(accuracy.not_compared("eager gave no results to compare with"))
            return
        if varies:
            one.judged(accuracy.varying(varies, training=training))
            return
        expected, reference = results.load(eager), results.load(float64) if float64 else None

        def judge(found: Results) -> Accuracy:
            return accuracy.judge(found, expected, reference, training=training, no_float64=why)

        verdict = judge(one.results)
        if verdict.passed is False:
            self._judge = judge
            coarse = of_tf32(one.device, one.results)
            verdict = replace(verdict, why="; ".join(filter(None, (verdict.why, coarse))))
        elif verdict.passed and one.replayed is not None:
            replay = judge(one.replayed)
            if replay.passed is False:  # no line is to blame, and a bisection makes first calls
                words = f"the first call is right, a replay of its CUDA graph not: {replay.why}"
                verdict = replace(replay, why=words)
        one.judged(verdict)

    def search(self, seconds: float) -> None:
        """Look for the first line that differs, for so many seconds. Nothing is measured behind it."""
        one, judge = self.one, self._judge
        suspect, verdict = one.compiled.suspect, one.row.accuracy
        if judge is None or suspect is None or verdict is None:
            return
        generated = one.compiled.graphs  # now: what is compiled from here on is not the target's own
        first = bisection.find_first(
            self._tried,
            suspect,
            judge,
            seconds=seconds,
            first_seconds=(one.row.first_us or 0.0) / 1e6,
        )
        one.judged(bisection.with_first(verdict, first, generated))

    def _tried(self, backend: Callable[..., Any]) -> Results:
        with self.one.compiled.replaced_by(backend):
            return self.again()


def of_tf32(device: torch.device, given: Results) -> str:
    """What is to be known of float32 results of a GPU that may round to TF32; empty where it may not."""
    if device.type != "cuda" or not any(one.dtype == "torch.float32" for one in given.values):
        return ""
    backends: Any = torch.backends
    try:
        allowed = backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32
        without = "torch.backends.cudnn.allow_tf32 = False"
    except RuntimeError:  # the program uses torch's newer names for it, since 2.9
        allowed = "tf32" in (backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision)
        without = 'torch.backends.cudnn.conv.fp32_precision = "ieee"'
    if not allowed:
        return ""
    return (
        "TF32 is allowed here, which rounds what is multiplied to 10 bits, and not every kernel uses it: compare "
        f"without it to see whether it is that ({without}, and the same for torch.backends.cuda.matmul)"
    )
