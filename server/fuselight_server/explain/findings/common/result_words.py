"""The results of compiled calls next to those of eager mode, in words: what was compared, what differs, which stage.

Invariant: what was not compared is always said, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fuselight.shared.codec import read_table
from fuselight.shared.report import (
    ComparedCall,
    KernelReplay,
    NonFinite,
    NonFiniteKind,
    NonFiniteOrigin,
    ResultCause,
    ResultComparison,
    Stage,
    TriedSetting,
)
from fuselight_server.base.formatting import format_count
from fuselight_server.base.result_verdicts import AS_EAGER, DIFFERS, NOT_COMPARED

_STAGES = read_table(dict[str, tuple[str, str]], __file__)
STAGE_NAMES = {stage: _STAGES[stage.value][0] for stage in Stage}
STAGE_TEXTS = {stage: _STAGES[stage.value][1] for stage in Stage}
"""Where the results of a call begin to differ, and what shows it."""
_LATER = "of later calls, fewer and fewer are compared"
_MAX_TITLE = 100
"""Characters of a title about what differs."""
_NO_REASON = "no reason is known"


def wrong_calls(results: ResultComparison) -> tuple[ComparedCall, ...]:
    """The calls whose results differ by more than rounding."""
    return tuple(call for call in results.calls if call.is_wrong)


def compared_calls(results: ResultComparison) -> tuple[ComparedCall, ...]:
    """The calls with a verdict."""
    return tuple(call for call in results.calls if call.is_wrong or call.is_as_eager)


def cause_of(results: ResultComparison, call: ComparedCall) -> ResultCause | None:
    """What further runs have shown of a call."""
    return next((cause for cause in results.causes if cause.call == call.index), None)


def results_in_words(results: ResultComparison) -> str:
    """`as eager (5 calls, 23 values compared; 2 calls not compared: eager's results differ between two calls)`."""
    wrong, compared = wrong_calls(results), compared_calls(results)
    if not results.call_count:
        return f"{NOT_COMPARED}: the run made no call of compiled code"
    coverage = _coverage(results)
    if not compared:
        return f"{NOT_COMPARED} ({coverage})"
    if not wrong:
        words = f"as `{results.against}`" if results.against else AS_EAGER
        return f"{words} ({coverage})"
    reference = f"`{results.against}`" if results.against else "eager"
    verb = DIFFERS if len(wrong) == 1 else "differ"
    return f"{format_count(len(wrong), 'call')} {verb} from {reference} ({coverage})"


def reference_words(results: ResultComparison) -> str:
    """What calls were compared with: `eager mode`, or a configuration."""
    return f"`{results.against}`" if results.against else "eager mode"


def next_to_eager_words(results: ResultComparison, call: ComparedCall) -> str:
    """Which of two configurations is as in eager mode, of a call in which they differ; empty if that is not known."""
    sides = call.next_to_eager
    if sides is None or sides.own is None or sides.other is None:
        return "It is not known which of the two is right: the call was not compared with eager mode."
    other = f"`{results.against}`"
    if sides.own and sides.other:
        return f"Both the configuration of the source and {other} differ from eager mode."
    if sides.own:
        return f"The configuration of the source differs from eager mode, and {other} does not."
    if sides.other:
        return f"{other} differs from eager mode, and the configuration of the source does not."
    return "Each of the two is near enough to eager mode: they differ by rounding that adds up."


def _coverage(results: ResultComparison) -> str:
    compared = compared_calls(results)
    values = sum(call.accuracy.compared for call in compared)
    left_out = list(not_compared(results))
    parts = []
    if compared:
        parts = [f"{format_count(len(compared), 'call')}, {format_count(values, 'value')} compared"]
    if len(left_out) == 1:
        count, why = left_out[0]
        parts.append(f"{format_count(count, 'call')} not compared: {why}")
    elif left_out:
        parts.append(f"{format_count(sum(count for count, _ in left_out), 'call')} not compared")
    return "; ".join(parts)


def not_compared(results: ResultComparison) -> Iterator[tuple[int, str]]:
    """How many calls were not compared, for each reason, the most frequent first."""
    decided = {call.index for call in compared_calls(results)}
    reasons = Counter(call.accuracy.why or _NO_REASON for call in results.calls if call.index not in decided)
    yield from ((count, why) for why, count in reasons.most_common())
    further = results.call_count - len(results.calls)
    if further > 0:
        yield further, results.why_not or _LATER


def remarks(results: ResultComparison) -> tuple[str, ...]:
    """What is said of calls that are as in eager mode: a rounding edge, no float64 result, NaN, kernels."""
    right = [call for call in results.calls if call.is_as_eager]
    whys = (call.accuracy.why for call in right if call.accuracy.why)
    values = (f"{non_finite_words(value)}" for call in right for value in call.non_finite)
    return tuple(dict.fromkeys((*whys, *values, *_kernels_of_right_calls(results))))


def largest_difference(call: ComparedCall) -> str:
    """What differs most of a wrong call, and by how much: `gradient of w is off by up to 0.42`."""
    tensor = next((tensor for tensor in call.accuracy.tensors if not tensor.passed), None)
    if tensor is not None and tensor.absolute is not None:
        return f"{tensor.what} is off by up to {tensor.absolute:.3g}"
    if tensor is not None:  # another dtype or shape, or NaN: the verdict begins with it
        first = call.accuracy.why.partition("; ")[0]
        return first if len(first) <= _MAX_TITLE else tensor.what
    if call.draws is not None and call.draws.why:
        return call.draws.why.partition(": ")[0]
    return call.others[0].text if call.others else "what is compared"


def differences(call: ComparedCall, most: int | None = None) -> list[str]:
    """What differs of a wrong call: its numbers first, then what else it does, `most` of these."""
    why = [call.accuracy.why] if call.accuracy.passed is False else []
    texts = [*why, *(difference.text for difference in call.others[:most])]
    return list(filter(None, texts)) or [largest_difference(call)]


def call_words(call: ComparedCall) -> str:
    """The verdict on one call: `as eager, 5 values`, `output is off by up to 0.42`, `not compared: ...`."""
    if call.is_wrong:
        return largest_difference(call)
    if call.is_as_eager:
        return f"{AS_EAGER}, {format_count(call.accuracy.compared, 'value')}"
    return f"{NOT_COMPARED}: {call.accuracy.why or _NO_REASON}"


def non_finite_words(value: NonFinite) -> str:
    """`output has NaN (3 in eager mode and compiled, 3 in float64)`."""
    plural = "NaN" if value.kind is NonFiniteKind.NAN else "infinities"
    modes = [("eager mode", value.eager), ("compiled code", value.compiled), ("float64", value.float64)]
    counts = ", ".join(f"{count:,} in {mode}" for mode, count in modes if count is not None)
    return f"{value.what} has {plural} ({counts})"


def change_of_non_finite(value: NonFinite) -> str:
    """Whether compiling adds or removes such elements; empty if it does neither."""
    if value.eager == value.compiled:
        return ""
    verb = "adds" if value.compiled > value.eager else "removes"
    return f"Compiling {verb} {value.kind.value}: {non_finite_words(value)}."


def origin_words(origin: NonFiniteOrigin) -> str:
    """`div of 0 and 0, computed from input 0`."""
    if not origin.stack:
        return f"{', '.join(origin.inputs)} has it before the call"
    operands = f" of {origin.operands}" if origin.operands else ""
    inputs = f", computed from {', '.join(origin.inputs)}" if origin.inputs else ""
    return f"`{origin.operator}`{operands}{inputs}"


def replay_words(replay: KernelReplay) -> str:
    """Which kernel is wrong on its own inputs, and how many buffers were judged."""
    coverage = _judged_words(replay)
    if replay.kernel:
        wrong = _wrong_buffer_words(replay)
        return f"The kernel `{replay.kernel}` is wrong: replayed on its own inputs, {wrong}. {coverage}"
    if not replay.judged:
        return f"No kernel was judged by a replay on its own inputs. {coverage}"
    return f"No kernel that was judged is wrong on its own inputs: the fault is before them. {coverage}"


def _judged_words(replay: KernelReplay) -> str:
    total = replay.judged + replay.unmapped + replay.not_evaluated
    return (
        f"Of {format_count(total, 'buffer')}, {replay.judged:,} judged, {replay.unmapped:,} not mapped to operators, "
        f"{replay.not_evaluated:,} not evaluated."
    )


def _wrong_buffer_words(replay: KernelReplay) -> str:
    if replay.distribution:
        return f"`{replay.buffer}` has random numbers of another distribution: {replay.distribution}"
    if not replay.steps:
        return f"`{replay.buffer}` has NaN or infinity elsewhere"
    off = f"{replay.steps:,.0f} rounding steps off, and its operators in eager mode {replay.eager_steps:,.0f}"
    return f"`{replay.buffer}` is {off}"


def _kernels_of_right_calls(results: ResultComparison) -> tuple[str, ...]:
    """What a replay shows of the kernels of calls that are as in eager mode: one suspected, or how many were judged."""
    texts = []
    for call in results.calls:
        replay = call.accuracy.replay
        if replay is None or not call.is_as_eager:
            continue
        suspected = (
            f"The kernel `{replay.kernel}` is suspected, although the results are right: replayed on its own inputs, "
            f"{_wrong_buffer_words(replay)}. "
            if replay.kernel
            else ""
        )
        texts.append(f"kernels of call {call.index + 1}: {suspected}{_judged_words(replay)}")
    return tuple(texts)


def setting_text(setting: TriedSetting) -> str:
    """The setting as a statement: `torch._inductor.config.pattern_matcher = False`."""
    return f"`{setting.name} = {setting.value}`" if setting.value else f"the default of `{setting.name}`"


def replaced_at(results: ResultComparison, stage: Stage) -> tuple[str, ...]:
    """What the program sets of the compiler that may be at fault at a stage."""
    of_capture = ("torch._dynamo.", 'options["guard_filter_fn"]')
    return tuple(name for name in results.replaced if name.startswith(of_capture) is (stage is Stage.CAPTURE))
