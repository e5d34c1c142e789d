"""Knobs, bounds, reasons and outcomes as people read them, who train models and have never tuned a compiler.

Invariant: a knob that this version does not know is shown by its name, never left out.
"""

from __future__ import annotations

from fuselight.shared.codec import read_table
from fuselight.shared.configurations import EAGER
from fuselight.shared.report import (
    Knob,
    KnobBound,
    Numerics,
    Skip,
    TuneCandidate,
    Tuned,
    TunedResult,
    TuneOutcome,
)
from fuselight.tune.knobs import KNOBS
from fuselight_server.base.formatting import format_list, format_percent, format_ratio, format_time
from fuselight_server.explain.benchmarks.words import device, has_device
from fuselight_server.explain.searches.measurements import (
    DEFAULT,
    candidate_of,
    decided_gain,
    gain,
    has_decision,
    is_clearly_faster,
    is_confirmed,
    over_eager,
)

LABELS = read_table(dict[str, str], __file__)
"""Names of knobs as people read them, where that is not the name with blanks."""
_MEANINGS = {knob.name: knob.about for knob in KNOBS}

BOUNDS = {
    KnobBound.IDLE: "time in which the device waits for the host",
    KnobBound.MATMUL: "time in matrix multiplications",
    KnobBound.CONVOLUTION: "time in convolutions",
    KnobBound.GENERATED: "time in generated kernels",
    KnobBound.ATTENTION: "time in attention",
    KnobBound.DENSE: "time in matrix multiplications and convolutions",
    KnobBound.KERNELS: "time in all kernels",
    KnobBound.LAYOUT: "time in copies and convolutions",
    KnobBound.BREAKS: "time at graph breaks and recompilations",
    KnobBound.OPTIMIZER: "time in the optimizer's step",
    KnobBound.CALL: "the whole call",
}

SKIPS = {
    Skip.NOISE: "it cannot gain more than the noise of the timings",
    Skip.NUMERICS: "it changes the arithmetic, which the numerics do not allow",
    Skip.ASSUMPTION: "it assumes something of the program that was not confirmed",
    Skip.WORK: "it does not apply to this kind of call",
    Skip.DEVICE: "it does not apply to this device",
    Skip.ABSENT: "the model has nothing that it changes, or this torch lacks the option",
    Skip.EXCLUDED: "it cannot be combined with a knob of the fastest configuration",
    Skip.BUDGET: "the budget left no time for its compile",
}

OUTCOMES = {
    TuneOutcome.WINNER: "winner",
    TuneOutcome.BASELINE: "baseline",
    TuneOutcome.SLOWER: "slower",
    TuneOutcome.ELIMINATED: "eliminated",
    TuneOutcome.UNCONFIRMED: "not confirmed",
    TuneOutcome.INACCURATE: "wrong results",
    TuneOutcome.FAILED: "failed",
    TuneOutcome.SKIPPED: "not tried",
    TuneOutcome.UNFINISHED: "not measured in time",
}

EXPLAINED = {
    TuneOutcome.ELIMINATED: "it left its last race early: another configuration was faster in the same rounds",
    TuneOutcome.UNCONFIRMED: "it led the race, but the confirming race did not show it to be faster than default",
}
"""Outcomes that need a sentence."""

_CLEAR = 1.05
"""A gain from which it is the spread of the timings that kept it from being confirmed."""
NUMERICS = {
    Numerics.EXACT: "exact: only what torch.compile itself does",
    Numerics.TF32: "TF32 allowed",
    Numerics.REDUCED: "TF32 and bfloat16 allowed",
}


def knob_label(name: str) -> str:
    """`CUDA graphs` for the knob `cuda_graphs`."""
    return LABELS.get(name) or name.replace("_", " ")


def applies(knob: Knob) -> bool:
    """Whether a knob changes something of this target on this device, whatever became of it."""
    return knob.skipped not in {Skip.WORK, Skip.DEVICE, Skip.ABSENT}


def knob_meaning(name: str) -> str:
    """What a knob changes; empty for one that is not known."""
    return _MEANINGS.get(name, "")


def configuration_label(name: str, knobs: tuple[str, ...]) -> str:
    """`CUDA graphs and coordinate descent`; the notation of a configuration without knobs."""
    return format_list(knob_label(knob) for knob in knobs) or name


def bound_words(bound: KnobBound) -> str:
    """`time in matrix multiplications`: the part of a call that a knob can at most remove."""
    return BOUNDS.get(bound) or f"time in {bound.value.replace('_', ' ')}"


def outcome_words(candidate: TuneCandidate) -> str:
    """What became of a candidate. One that raced until the search was ended early has no outcome."""
    if candidate.configuration.failure is not None:
        return OUTCOMES[TuneOutcome.FAILED]  # also of a baseline
    if candidate.outcome is TuneOutcome.UNFINISHED and candidate.stage:
        return "measured, not decided"
    return OUTCOMES[candidate.outcome]


def why_skipped(skip: Skip | None, detail: str) -> str:
    """The reason for not trying something; empty if it was tried."""
    if skip is None:
        return ""
    if skip is Skip.NOISE and detail:
        return f"{SKIPS[skip]}: {detail}"
    return detail or SKIPS[skip]


def gain_words(result: TunedResult) -> str:
    """`1.34× over default (at least 1.31×)`."""
    low = f" (at least {format_ratio(result.gain_low)})" if 1 < result.gain_low < result.gain else ""
    return f"{format_ratio(result.gain)} over default{low}"


def lens_words(tuned: Tuned) -> str:
    """`Tuned: 1.34× over default`, `Tuned: default is fastest`, `Tuned: eager is faster`, `Tuned: no decision`."""
    result = tuned.result
    if result is None or not has_decision(tuned):
        return "Tuned: no decision"
    if result.configuration == "default":
        return "Tuned: eager is faster" if _eager_words(tuned) else "Tuned: default is fastest"
    confirmed = "" if is_confirmed(tuned) else ", not confirmed"
    return f"Tuned: {format_ratio(result.gain)} over default{confirmed}"


def headline(tuned: Tuned) -> str:
    """The decision in one sentence."""
    result = tuned.result
    if result is None:
        return _undecided(tuned)
    if result.configuration == "default":
        return _eager_words(tuned) or _default_words(tuned)
    winner = candidate_of(tuned, tuned.winner)
    name = configuration_label(result.configuration, winner.knobs if winner is not None else ())
    if not is_confirmed(tuned):
        return f"best so far: {name}, {gain_words(result)}, not confirmed"
    times = f"{format_time(result.us)} a call instead of {format_time(result.default_us)}"
    return f"{name}: {gain_words(result)}, {times}"


def _eager_words(tuned: Tuned) -> str:
    """That eager mode is clearly faster than `default`; empty if it is not."""
    ratio = gain(tuned, EAGER)
    if ratio is None or not is_clearly_faster(tuned, EAGER, DEFAULT):
        return ""
    faster = f"eager mode is faster than default: {format_ratio(ratio)}"
    return f"{faster}, and no configuration was confirmed to be faster than default"


def _default_words(tuned: Tuned) -> str:
    """Why the decision is `default`."""
    eager = gain(tuned, EAGER)
    if eager is not None and eager > _CLEAR:
        ratio = format_ratio(eager)
        return f"default: nothing was confirmed to be faster, but eager mode may be ({ratio}): timings vary too much"
    others = [candidate for candidate in tuned.candidates if candidate.outcome is not TuneOutcome.BASELINE]
    leader = next((candidate for candidate in others if candidate.outcome is TuneOutcome.UNCONFIRMED), None)
    race = tuned.confirmation
    if leader is not None and race is not None and race.gain > _CLEAR and race.low <= 1:
        name = configuration_label(leader.configuration.name, leader.knobs)
        return f"default: {name} led, but the timings vary too much to confirm it. Close other programs and tune again"
    if any(
        candidate.configuration.wall is not None or candidate.configuration.device is not None
        for candidate in others
    ):
        return "default is the fastest: nothing that was tried is faster beyond the noise"
    if any(
        candidate.skipped is Skip.BUDGET or candidate.outcome is TuneOutcome.UNFINISHED
        for candidate in others
    ):
        return (
            "default: the budget ended before another configuration was measured. Give the search more time"
        )
    if others:
        return "default: no other configuration could be measured"
    return "default is the fastest: no knob could gain more than the noise"


def _undecided(tuned: Tuned) -> str:
    """What is known without a decision."""
    best = best_so_far(tuned)
    if best is None:
        return "no decision yet" if not tuned.finished else "no decision: default could not be measured"
    best_words = f"{configuration_label(best[0].configuration.name, best[0].knobs)}, {format_ratio(best[1])}"
    return f"best so far: {best_words} over default, not confirmed"


def best_so_far(tuned: Tuned) -> tuple[TuneCandidate, float] | None:
    """The candidate that leads, and its gain over default; None while nothing is faster than default."""
    leader = candidate_of(tuned, tuned.winner)
    if leader is None or tuned.winner == "default":
        return None
    ratio = decided_gain(tuned, tuned.winner)
    return None if ratio is None else (leader, ratio)


def statements(tuned: Tuned) -> list[str]:
    """The headline, then what it rests on."""
    statements = [headline(tuned)]
    result, confirmation = tuned.result, tuned.confirmation
    if result is not None:
        eager = over_eager(tuned, result.configuration)
        if eager is not None and result.configuration != "default":
            statements.append(f"about {format_ratio(eager)} over eager")
        if confirmation is not None and result.configuration != "default":
            statements.append(
                f"the confirming race against default: {confirmation.rounds} rounds, gain between "
                f"{format_ratio(confirmation.low)} and {format_ratio(confirmation.high)} (95%)"
            )
        if result.accuracy and result.configuration != "default":
            statements.append(f"results: {result.accuracy}")
        if result.fixed_modules:
            statements.append(
                "modules are not checked before a call: after a change of one (train(), a replaced layer, a hook) "
                "call torch._dynamo.reset()"
            )
        if result.fixes:
            statements.append(f"the source must have these fixes: {format_list(result.fixes)}")
    tried = [candidate for candidate in tuned.candidates if candidate.started_s is not None]
    took = f"{format_time(tuned.seconds * 1e6)} of a budget of {format_time(tuned.budget_seconds * 1e6)}"
    on = f", on {device(tuned.machine)}" if has_device(tuned.machine) else ""
    statements.append(f"{len(tried)} configurations measured or started in {took}{on}")
    largest = next((knob for knob in tuned.knobs if knob.ceiling and applies(knob)), None)
    if result is not None and result.configuration == "default" and largest is not None and largest.ceiling:
        part = format_percent(1 - 1 / largest.ceiling)
        statements.append(f"the largest ceiling was {part} of a call, for {knob_label(largest.name)}")
    return statements


def with_best(text: str, best: str) -> str:
    """The text of a progress, and the best so far unless the worker has said it there."""
    return text if not best or "best so far" in text else f"{text}; {best}"


def progress_best(tuned: Tuned) -> str:
    """`best so far CUDA graphs 1.32×`; empty while nothing is faster than default."""
    best = best_so_far(tuned)
    if best is None:
        return ""
    return f"best so far {configuration_label(best[0].configuration.name, best[0].knobs)} {format_ratio(best[1])}"
