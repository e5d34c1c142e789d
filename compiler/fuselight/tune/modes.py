"""Measures torch's other modes beside the winner of a search, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuselight.measure.orders import Order
from fuselight.shared.configurations import AUTOTUNING_MODES, MODES
from fuselight.shared.report import TuneOutcome
from fuselight.tune.pool import TrialPool
from fuselight.tune.timed_rounds import TimedRounds
from fuselight.tune.trial import Trial


def measure_modes(
    pool: TrialPool,
    rounds: TimedRounds,
    winner: Trial,
    asked: Sequence[str],
    *,
    jobs: int,
    accuracy: bool,
    tell: Callable[[str], None],
) -> None:
    """Compile the modes `asked` that were not measured, and time them in one race with the winner.

    Both modes that time kernels make the same choices: the second, whose compile begins after that of the first, takes
    them from the cache of the first. So its compile is shorter than in a program.
    """
    first, second = AUTOTUNING_MODES
    plain = [name for name in MODES if name not in AUTOTUNING_MODES]
    names = [name for name in (first, *plain, second) if name in asked and name not in pool.trials]
    for name in names:
        tell(f"compiling torch's mode {name}")
        while len(pool.compiling) >= jobs or (name == second and _is_compiling(pool, first)):
            pool.collect()
        if (started := pool.start(name)) is not None:
            started.outcome = TuneOutcome.BASELINE
    while pool.working:
        pool.collect()
    modes = [trial for name in names if (trial := pool.trials.get(name)) is not None and trial.is_idle]
    tell("timing torch's modes")
    with pool.quiet():
        modes = [trial for trial in modes if rounds.warm(trial)]
        others = [trial for trial in (*pool.baselines, winner) if trial.is_idle]
        racing = list(dict.fromkeys([*others, *modes]))
        rounds.take_turns(racing)
        for trial in modes:
            pool.order(trial, Order.WEIGH)
    for trial in racing:
        if accuracy and trial in modes:
            pool.order(trial, Order.COMPARE, **pool.comparison)
        pool.refresh(trial)


def _is_compiling(pool: TrialPool, name: str) -> bool:
    return any(trial.name == name for trial in pool.compiling)
