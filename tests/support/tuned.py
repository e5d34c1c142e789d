"""Hand-made searches: eager, `default`, a winner, and candidates that failed, were wrong or were not tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fuselight.shared.report import (
    Confirmation,
    Culprit,
    Failure,
    Knob,
    KnobBound,
    Numerics,
    RaceSample,
    Report,
    Skip,
    Tier,
    TuneCandidate,
    Tuned,
    TunedGraph,
    TunedResult,
    TuneOutcome,
    Work,
)
from tests.support.measured import MACHINE, row, wrong
from tests.support.reports import report

GRAPHS = "default+triton.cudagraphs=True"
TUNED_GRAPHS = f"{GRAPHS}+coordinate_descent_tuning=True"
MEMORY = Failure(Culprit.ENVIRONMENT, "memory", "out of memory", "give it smaller inputs")
KNOBS = (
    Knob("cuda_graphs", KnobBound.IDLE, 250.0, 2.0, detail="12 launches"),
    Knob("gemm_autotune", KnobBound.DENSE, 100.0, 1.25),
    Knob("coordinate_descent", KnobBound.GENERATED, 50.0, 1.11),
    Knob("channels_last", KnobBound.LAYOUT, 2.0, 1.004, Skip.NOISE, "0.4% of a call"),
    Knob(
        "tf32",
        KnobBound.DENSE,
        100.0,
        1.25,
        Skip.NUMERICS,
        "`fuselight.tune.numerics` allows it (`tf32`)",
    ),
    Knob("optimizer", KnobBound.OPTIMIZER, skipped=Skip.WORK, detail="not for inference"),
)


def result(**changes: Any) -> TunedResult:
    """A winner that is 1.6 times as fast as default."""
    given: dict[str, Any] = {
        "file": "model.py", "target": "Net", "work": Work.INFERENCE, "numerics": Numerics.EXACT,
        "device": "NVIDIA H200", "capability": "9.0", "torch": "2.13.0", "triton": "3.7.1",
        "configuration": TUNED_GRAPHS,
        "graphs": (TunedGraph("abc", ("f32[4, 8]",), 12),),
        "options": {"triton.cudagraphs": True, "coordinate_descent_tuning": True},
        "us": 250.0, "default_us": 400.0, "eager_us": 800.0, "gain": 1.6, "gain_low": 1.55,
        "accuracy": "passed against float64", "when": "2026-01-31T12:02:00Z", "fuselight": "0.1.0",
    }  # fmt: skip
    return TunedResult(**{**given, **changes})


def candidates() -> tuple[TuneCandidate, ...]:
    """One of each outcome."""
    baseline = TuneOutcome.BASELINE
    return (
        TuneCandidate(row("eager", 800.0), baseline, stage=3, started_s=0.0, ready_s=4.0),
        TuneCandidate(row("default", 400.0), baseline, stage=3, started_s=0.0, ready_s=9.0),
        TuneCandidate(
            row(TUNED_GRAPHS, 250.0), TuneOutcome.WINNER, ("cuda_graphs", "coordinate_descent"), stage=3,
            started_s=20.0, ready_s=60.0,
        ),
        TuneCandidate(
            row(GRAPHS, 260.0), TuneOutcome.SLOWER, ("cuda_graphs",), stage=2, started_s=9.0, ready_s=20.0
        ),
        TuneCandidate(
            row("default+max_autotune_gemm=True", None, failure=MEMORY), TuneOutcome.FAILED, ("gemm_autotune",),
            started_s=22.0,
        ),
        TuneCandidate(
            row("default+freezing=True", 380.0, accuracy=wrong()), TuneOutcome.INACCURATE, ("freezing",), stage=1,
            started_s=25.0, ready_s=30.0,
        ),
        TuneCandidate(
            row("default+combo_kernels=True", None), TuneOutcome.SKIPPED, ("combo_kernels",), Skip.BUDGET
        ),
    )  # fmt: skip


def race() -> tuple[RaceSample, ...]:
    """Two stages and the confirming race, in which the winner is 1.6 times as fast as default in each round."""
    samples = []
    for stage, names in ((1, ("default", GRAPHS, TUNED_GRAPHS)), (2, ("default", TUNED_GRAPHS))):
        for number in range(3):
            for name in names:
                us = {"default": 400.0, GRAPHS: 260.0, TUNED_GRAPHS: 250.0}[name] * (1 + number / 100)
                samples.append(RaceSample(60.0 + 10 * stage + number, stage, name, us))
    return tuple(samples)


def tuned(**changes: Any) -> Tuned:
    """A finished search."""
    given: dict[str, Any] = {
        "work": Work.INFERENCE, "machine": MACHINE, "numerics": Numerics.EXACT, "budget_seconds": 120.0,
        "knobs": KNOBS, "candidates": candidates(), "race": race(), "winner": TUNED_GRAPHS,
        "confirmation": Confirmation(250.0, 400.0, 1.6, 1.55, 1.65, 10), "result": result(),
        "seconds": 95.0, "finished": True, "started": "2026-01-31T12:00:00Z",
    }  # fmt: skip
    return Tuned(**{**given, **changes})


def search(of: dict[str, Any] | None = None, **parts: Any) -> Report:
    """A report of a search; `of` changes the search."""
    return replace(report(), **{"tier": Tier.TUNED, "tuned": tuned(**(of or {})), **parts})


def undecided(**changes: Any) -> Tuned:
    """A search that still runs: something leads, nothing is confirmed."""
    return tuned(finished=False, result=None, confirmation=None, **changes)


def default_won(**changes: Any) -> Tuned:
    """A search in which nothing was faster."""
    plain = result(configuration="default", options={}, us=400.0, gain=1.0, gain_low=1.0)
    kept = tuple(
        replace(candidate, outcome=TuneOutcome.UNCONFIRMED)
        if candidate.outcome is TuneOutcome.WINNER
        else candidate
        for candidate in candidates()
    )
    return tuned(**{"winner": "default", "result": plain, "candidates": kept, **changes})
