"""FL801 of a program's own calls: compiled results that differ from eager mode, with the stage and the cure.

Invariant: one finding for each function and line that is wrong, on the first line that differs, else on its definition:
calls of one function that differ in several stages have one fault, unless they differ first on other lines. A setting
counts as a cure only if a run has shown that the call is then as in eager mode.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuselight.shared.report import RAISES_NOTHING, Location, Stage
from fuselight_server.base.finding import Finding, Related, Span
from fuselight_server.base.formatting import (
    cut_list,
    format_count,
    format_list,
    format_ratio,
    format_target,
)
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advised
from fuselight_server.explain.findings.breaks.unguarded_changes import unseen_findings
from fuselight_server.explain.findings.common.context import span_of
from fuselight_server.explain.findings.common.result_words import (
    STAGE_NAMES,
    STAGE_TEXTS,
    cause_of,
    change_of_non_finite,
    differences,
    largest_difference,
    next_to_eager_words,
    reference_words,
    replaced_at,
    replay_words,
    setting_text,
    wrong_calls,
)
from fuselight_server.explain.findings.common.source_tree import tree_around
from fuselight_server.explain.findings.common.text import compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.shared.report import ComparedCall, RegionEdit, ResultCause, ResultComparison, TriedSetting
    from fuselight_server.explain.findings.common.context import Context

REGION_OPTIONS = "region_options"
"""The quick fix that gives options to the torch.compile of one function."""
SETTING = "setting"
"""The kind of a remedy that is a setting of torch."""
_MAX_DIFFERENCES = 3
_MAX_TRIED = 4
"""Settings without an effect that are named; the remedies have all."""
_DECLARATION = "Correct the declaration"
_DECLARATIONS = {
    "test_schema": (
        "Name what it writes to (in `mutates_args`, or as `Tensor(a!)`), and return no argument: correct the schema"
    ),
    "kept_memory": "Return a tensor of its own from each call, as `.clone()` does: correct the result",
    "test_faketensor": "Return what the real operator does from `register_fake`, with its strides: correct that form",
}
"""By the check that fails."""
_NOT_IMPORTED = "torch._functorch.config"
"""A module of settings that `import torch` alone does not load."""
_KEPT_MEMORY = "kept_memory"
"""A check of ours, not of torch's."""
_NO_CAUSE = "Further runs have not shown which stage of the compiler is wrong."


def result_findings(context: Context) -> Iterator[Finding]:
    """The findings of compared calls."""
    results = context.report.results
    if results is None:
        return
    functions: dict[tuple[str, Location | None], list[ComparedCall]] = {}
    for call in wrong_calls(results):
        functions.setdefault((call.name, call.location), []).append(call)
    known = tuple(unseen_findings(context)) if functions else ()
    for of_function in functions.values():
        for calls in _by_first_line(context, of_function):
            yield _finding(context, results, calls, known)


def _by_first_line(context: Context, calls: Sequence[ComparedCall]) -> list[list[ComparedCall]]:
    """The calls of one function by the first line that differs; those without one are with the first of the others."""
    lines: dict[tuple[str, int] | None, list[ComparedCall]] = {}
    for call in calls:
        stack = next((fault.stack for fault in call.operators if fault.stack), call.accuracy.first)
        place = context.innermost_user_frame(stack)
        lines.setdefault((place.path, place.line) if place is not None else None, []).append(call)
    unknown = lines.pop(None, [])
    groups = list(lines.values())
    return [[*groups[0], *unknown], *groups[1:]] if groups else [unknown]


def _other_stages(results: ResultComparison, calls: Sequence[ComparedCall], shown: ResultCause | None) -> str:
    """Where the results of other calls begin to differ; empty where all of them do in the stage that is shown."""
    causes = [cause_of(results, call) for call in calls]
    stages = dict.fromkeys(cause.stage for cause in causes if cause is not None)
    others = [STAGE_NAMES[stage] for stage in stages if shown is None or stage is not shown.stage]
    return f"Other calls begin to differ in {format_list(others)}." if others else ""


def _finding(
    context: Context, results: ResultComparison, calls: Sequence[ComparedCall], known: Sequence[Finding]
) -> Finding:
    """The finding of calls of one function; `known` has the findings of the report that explain wrong results."""
    located = next((call for call in calls if call.accuracy.first), calls[0])
    cause = cause_of(results, located)
    stack = next((fault.stack for fault in located.operators if fault.stack), located.accuracy.first)
    first = context.innermost_user_frame(stack)
    operator = f" in `{located.accuracy.first_operator}`" if located.accuracy.first_operator else ""
    finding = context.finding(
        "FL801",
        f"results of `{format_target(located.name)}` differ from {reference_words(results)}{operator}: "
        f"{largest_difference(located)}",
        *_paragraphs(results, located, cause, is_line_known=first is not None),
        _other_stages(results, calls, cause),
        at=first or context.first_of_user(located.location, located.caller),
        stack=stack,
        hints=dict.fromkeys(
            (*_cures_of_others(results, calls, cause), *_remedies(context, results, located, first))
        ),
        count=len(calls),
        **_region_data(cause),
    )
    finding = replace(finding, related=(*finding.related, *_callers(context, calls, finding)))
    explained = next((item for item in known if _is_in_one_function(context, item.span, finding.span)), None)
    return finding if explained is None else _after(finding, explained, located)


def _cures_of_others(
    results: ResultComparison, calls: Sequence[ComparedCall], shown: ResultCause | None
) -> Iterator[FindingRemedy]:
    """The settings that cure calls which begin to differ in another stage than the one that is shown."""
    for cause in (cause_of(results, call) for call in calls):
        for setting in (
            cause.tried if cause is not None and shown is not None and cause.stage is not shown.stage else ()
        ):
            if setting.cures:
                yield _setting_remedy([setting])


def _is_in_one_function(context: Context, span: Span, other: Span) -> bool:
    first, second = (_def_line(context, place) for place in (span, other))
    return span.path == other.path and (span.line == other.line or first == second != 0)


def _def_line(context: Context, span: Span) -> int:
    """The line of the function around a place; 0 if it is not known."""
    tree = tree_around(context, Location(span.path, span.line))
    return next(
        (node.lineno for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, _FUNCTIONS)), 0
    )


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _after(finding: Finding, explained: Finding, call: ComparedCall) -> Finding:
    """The finding as a consequence of one that has the cause and the cure: nothing of the compiler is accused."""
    where = f"{explained.code} on line {explained.span.line}"
    step = FindingRemedy(
        f"Correct line {explained.span.line} first, and compare again: {explained.code} has the cause"
    )
    words = f"Call {call.index + 1} of the run: {'; '.join(differences(call, _MAX_DIFFERENCES))}."
    return replace(
        finding,
        message=compose(words, f"{where} explains it: {explained.title}.", hints=advised((step,))),
        remedies=(step,),
        fixes=(),
        data=(),
        follows=Related(explained.span, f"it follows from {where}"),
    )


def _paragraphs(
    results: ResultComparison, call: ComparedCall, cause: ResultCause | None, *, is_line_known: bool
) -> Iterator[str]:
    words = "; ".join(differences(call, _MAX_DIFFERENCES))
    yield f"Call {call.index + 1} of the run: {words}."
    if is_line_known and not call.operators:
        yield call.accuracy.first_why or "This is the first line whose operators return different results."
    yield from filter(None, map(change_of_non_finite, call.non_finite))
    for fault in call.operators:
        yield (
            f"The custom operator `{fault.name}` does not do what it is declared to do, and compiled code relies on "
            f"that: {fault.why.rstrip('.')}{_check_in_words(fault.check)}."
        )
    if results.against:
        yield next_to_eager_words(results, call)
        return
    if cause is None:
        yield _NO_CAUSE
        return
    yield STAGE_TEXTS[cause.stage]
    if call.accuracy.replay is not None:
        yield replay_words(call.accuracy.replay)
    if cause.stage is Stage.CAPTURE:
        yield _guards(results, call)
    yield _tried(cause.tried)


def _check_in_words(check: str) -> str:
    return "" if check == _KEPT_MEMORY else f" (`{check}` of `torch.library.opcheck`)"


def _guards(results: ResultComparison, call: ComparedCall) -> str:
    """Whether a guard is missing, or a value is traced wrong: what earlier calls of the function show."""
    same = [each for each in results.calls if (each.name, each.location) == (call.name, call.location)]
    earlier = [each for each in same if each.index < call.index]
    if not earlier:
        return "Its first call is wrong: a value is traced wrong, or a change of the function has no effect."
    if any(each.is_as_eager for each in earlier):
        return (
            "Earlier calls are right: a guard that would compile the function again is probably missing, so that this "
            "call uses code that was compiled for another one."
        )
    return ""


def _tried(tried: Sequence[TriedSetting]) -> str:
    """Which settings cure, and which do not."""
    failed = [setting_text(setting) for setting in tried if not setting.cures]
    cures = [setting_text(setting) for setting in tried if setting.cures]
    texts = []
    if cures:
        texts.append(f"With {format_list(cures)} the results are as in eager mode.")
    if failed:
        also = "They still differ" if cures else "The results still differ"
        texts.append(f"{also} with {format_list(cut_list(failed, _MAX_TRIED))}.")
    return " ".join(texts)


def _remedies(
    context: Context, results: ResultComparison, call: ComparedCall, first: Location | None
) -> Iterator[FindingRemedy]:
    if results.against:
        yield FindingRemedy(
            "Run `fuselight accuracy` in each of the two configurations, alone: it names the line, the "
            "stage and a setting that cures"
        )
        return
    cause = cause_of(results, call)
    tried = cause.tried if cause is not None else ()
    cures = [setting for setting in tried if setting.cures]
    for setting in tried:
        if setting.region is not None:
            yield _region_remedy(setting.region)
        if setting not in cures[1:]:  # several cure together only
            yield _setting_remedy(cures if setting.cures else [setting])
    for fault in call.operators:
        yield FindingRemedy(f"{_DECLARATIONS.get(fault.check, _DECLARATION)} of `{fault.name}`")
    name = context.qualified_name(first) if first is not None else format_target(call.name)
    yield FindingRemedy(
        f"Run `{name or format_target(call.name)}` in eager mode with `@torch.compiler.disable` until it is fixed"
    )
    if call.operators:
        return
    own = replaced_at(results, cause.stage) if cause is not None else ()
    faults = [f"`{setting.name}`" for setting in cures if setting.name in own]
    if faults:
        yield FindingRemedy(
            f"Correct or remove what your program sets as {format_list(faults)}: without it the results are as in "
            "eager mode"
        )
        return
    untried = [f"`{name}`" for name in own if name not in {each.name for each in tried}]
    if untried:
        yield FindingRemedy(
            f"Look first at what your program sets as {format_list(cut_list(untried, _MAX_TRIED))}: whether the "
            "results are right without it was not tried"
        )
        return
    operator = f" of `{call.accuracy.first_operator}`" if call.accuracy.first_operator else ""
    stage = f" as wrong {STAGE_NAMES[cause.stage]}{operator}" if cause is not None else ""
    has_graph = cause is not None and cause.stage not in {Stage.CAPTURE, Stage.CACHES}
    program = ". `fuselight repro` writes a small program for it" if has_graph else ""
    reason = "the compiler is wrong, not your code"
    if any(other.text.startswith(RAISES_NOTHING) for other in call.others):
        yield FindingRemedy("Correct what makes eager mode raise, or check it before the call")
        reason = "compiled code does not check what eager mode does"
    yield FindingRemedy(f"Report it to PyTorch{stage}: {reason}{program}")


def _region_remedy(edit: RegionEdit) -> FindingRemedy:
    return FindingRemedy(
        f"On line {edit.line}, for this function alone: `{edit.new.strip()}`",
        RemedyState.VERIFIED,
        kind=SETTING,
        counts="results as in eager mode",
    )


def _region_data(cause: ResultCause | None) -> dict[str, Any]:
    """The quick fix of a finding, and what it needs."""
    edits = (setting.region for setting in (cause.tried if cause is not None else ()))
    edit = next((edit for edit in edits if edit is not None), None)
    if edit is None:
        return {}
    data = ("path", edit.path), ("line", str(edit.line)), ("old", edit.old), ("new", edit.new)
    return {"fixes": (REGION_OPTIONS,), "data": data}


def _setting_remedy(together: Sequence[TriedSetting]) -> FindingRemedy:
    setting = together[0]
    state = RemedyState.TRIED if setting.cures else RemedyState.REFUSED
    ratio = setting.ratio
    cost = "" if ratio is None else f"A call then takes {format_ratio(ratio)} the time"
    needs_import = any(each.value and each.name.startswith(f"{_NOT_IMPORTED}.") for each in together)
    return FindingRemedy(
        f"{'Set' if setting.value else 'Restore'} {format_list([*map(setting_text, together)])}"
        f"{f' (it needs `import {_NOT_IMPORTED}`)' if needs_import else ''}",
        state,
        kind=SETTING,
        why="" if setting.cures else "the results still differ",
        counts="results as in eager mode" if setting.cures else "the results still differ",
        cost=cost if setting.cures else "",
    )


def _callers(context: Context, calls: Sequence[ComparedCall], finding: Finding) -> Iterator[Related]:
    """The lines of the calls that differ, each once."""
    known = {(finding.span.path, finding.span.line)}
    known |= {(related.span.path, related.span.line) for related in finding.related}
    at_line: dict[tuple[str, int], list[Location]] = {}
    for caller in (call.caller for call in calls if call.caller is not None):
        if (caller.path, caller.line) not in known and context.is_user_file(caller.path):
            at_line.setdefault((caller.path, caller.line), []).append(caller)
    for callers in at_line.values():
        times = f" ({format_count(len(callers), 'call')})" if len(callers) > 1 else ""
        yield Related(span_of(callers[0]), f"the call whose results differ{times}")
