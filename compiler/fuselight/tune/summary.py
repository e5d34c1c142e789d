"""What a tuned result says of a trial: its times, and the outcome of the accuracy check."""

from __future__ import annotations

from dataclasses import replace

from fuselight.shared.configurations import EAGER
from fuselight.shared.report import Accuracy, Confirmation, Numerics, TunedResult
from fuselight.tune.pool import TrialPool
from fuselight.tune.trial import Trial


def summary(trial: Trial, pool: TrialPool, confirmed: Confirmation | None) -> TunedResult:
    """The result of a trial, without what only the plan and the process of the winner know.

    Times are of the confirming race if there was one. Else they are the gain in the last race and the time of `default`
    over all races: those of a race that the machine disturbed say nothing by themselves.
    """
    tuned_result = TunedResult(
        file="",
        target="",
        work=pool.work,
        numerics=Numerics.EXACT,
        device=pool.machine.device,
        configuration=trial.name,
        us=median_us(trial) or 0.0,
        default_us=median_us(pool.default) or 0.0,
        eager_us=median_us(pool.trials.get(EAGER)),
        gain=trial.gain or 1.0,
        accuracy=accuracy_words(trial.row.accuracy),
    )
    if confirmed is None and trial is not pool.default:
        return replace(tuned_result, us=tuned_result.default_us / tuned_result.gain)
    if confirmed is None:
        return tuned_result
    return replace(
        tuned_result,
        us=confirmed.us,
        default_us=confirmed.default_us,
        gain=confirmed.gain,
        gain_low=confirmed.low,
    )


def median_us(trial: Trial | None) -> float | None:
    """Microseconds of a call, by the device's clock if there is one."""
    timing = (trial.row.device or trial.row.wall) if trial is not None else None
    return None if timing is None else timing.median_us


def accuracy_words(accuracy: Accuracy | None) -> str:
    """The outcome of an accuracy check: `passed against float64`."""
    if accuracy is None or accuracy.passed is None:
        return f"not compared: {accuracy.why}" if accuracy is not None and accuracy.why else "not compared"
    return f"{'passed' if accuracy.passed else 'failed'} against {accuracy.against or 'eager'}"
