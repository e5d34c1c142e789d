"""`memory`: what a call or a training step allocates on a device that may be absent, by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.shared.devices import FALLBACK
from fuselight_server.agents.answers import ToolAnswer
from fuselight_server.agents.device_argument import device_of
from fuselight_server.agents.finding_data import failure_text
from fuselight_server.agents.tool import declared_tool
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.formatting import format_size
from fuselight_server.commands.finding_rows import problem_texts
from fuselight_server.commands.memory import OPTIMIZERS, MemoryOutcome, MemoryPlan, estimate_memory
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.memory.modules import module_rows
from fuselight_server.explain.memory.words import (
    NOTES,
    USES,
    cause_in_words,
    changed_lines,
    difference_in_words,
    edit_in_words,
    edit_results,
    forms_of,
    peak_in_words,
    saving_in_words,
    saving_name,
    step_in_words,
    use_in_words,
    useful_savings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.shared.report import Device, HeldMemory, MemoryEstimate, MemoryPeak, Report, TriedEdit
    from fuselight_server.agents.protocol.toolbox import Caller
    from fuselight_server.agents.session import AgentSession
    from fuselight_server.base.cancellation import CancelToken

_MODES = {"as directive": None, "training": True, "inference": False}
_MAX_ROWS = 12
_EVIDENCE = "estimated on fake tensors: nothing was allocated"


async def _memory(session: AgentSession, arguments: dict[str, Any], caller: Caller) -> ToolAnswer:
    paths = [session.existing(path) for path in arguments["paths"]]
    plan = MemoryPlan(
        device_of(arguments["device"]),
        _MODES[arguments["mode"]],
        arguments["optimizer"],
        finds_largest=arguments["largest_batch"],
        tries_savings=arguments["savings"],
    )
    await session.permit(paths, caller)

    async def work(show: Callable[[str], None], token: CancelToken) -> ToolAnswer:
        options = session.options(paths, arguments["targets"], limits=COMPILE_LIMITS)
        return _estimated(await estimate_memory(options, show, token, plan=plan))

    return await session.work.do("memory", work, arguments["wait_seconds"], caller)


def _estimated(outcome: MemoryOutcome) -> ToolAnswer:
    check = check_in_cells(outcome.check)
    data: dict[str, Any] = {
        "targets": [_target(report, outcome) for report in check.reports],
        "problems": [*problem_texts(check.problems), *check.uncalled],
        "evidence": _EVIDENCE,
    }
    return ToolAnswer("\n".join(_lines(data)), data)


def _target(report: Report, outcome: MemoryOutcome) -> dict[str, Any]:
    device, largest = report.target_device, outcome.largest_of(report)
    return {
        "target": report.target.name or "__main__",
        "path": shown_path(report.target.path),
        "device": device.name if device is not None else "",
        "calls": [_call(estimate, device, outcome) for estimate in report.memory] if device else [],
        "largest_batch": {"eager": largest.eager, "compiled": largest.compiled} if largest else None,
        "notes": [note.text for note in report.notes if note.kind in NOTES],
        "failures": [failure_text(failure) for failure in report.failures],
    }


def _call(estimate: MemoryEstimate, device: Device, outcome: MemoryOutcome) -> dict[str, Any]:
    return {
        "call": estimate.call,
        "rank": estimate.rank,
        "step": step_in_words(estimate),
        **{form.name: _peak_data(form.peak, form.why_not, device, outcome) for form in forms_of(estimate)},
        "difference": difference_in_words(estimate),
        "changes": [
            {**_row(row, outcome), "more": more, "cause": cause_in_words(estimate, more, row)}
            for more, row in list(changed_lines(estimate))[:_MAX_ROWS]
        ],
        "savings": [
            {
                "name": saving_name(saving),
                "eager": saving.eager,
                "compiled": saving.compiled,
                "words": saving_in_words(estimate, saving),
            }
            for saving in useful_savings(estimate)
        ],
        "edits": [_edit(estimate, edit) for edit in estimate.edits],
        "untried": list(estimate.untried),
    }


def _edit(estimate: MemoryEstimate, edit: TriedEdit) -> dict[str, Any]:
    at = edit.location
    return {
        "kind": edit.kind.value,
        "line": f"{shown_path(at.path)}:{at.line}",
        "eager": edit.eager,
        "compiled": edit.compiled,
        "words": f"{edit_in_words(estimate, edit)}; {edit_results(edit)}",
        "diff": edit.diff.replace(at.path, shown_path(at.path)),
    }


def _peak_data(
    peak: MemoryPeak | None, why_not: str, device: Device, outcome: MemoryOutcome
) -> dict[str, Any]:
    if peak is None:
        return {"bytes": None, "words": f"not estimated: {why_not}", "held": [], "modules": []}
    return {
        "bytes": peak.bytes,
        "words": peak_in_words(peak, device),
        "held": [{**_row(row, outcome), "bytes": row.bytes} for row in peak.held[:_MAX_ROWS]],
        "modules": [
            {"module": row.name, "bytes": row.bytes, "uses": {USES[use]: size for use, size in row.uses}}
            for row in module_rows(peak)[:_MAX_ROWS]
            if row.name
        ],
    }


def _row(row: HeldMemory, outcome: MemoryOutcome) -> dict[str, Any]:
    at = row.location
    return {
        "use": use_in_words(row),
        "line": f"{shown_path(at.path)}:{at.line}" if at is not None else "",
        "source": (outcome.check.sources.line(at.path, at.line) or "").strip() if at is not None else "",
    }


def _lines(data: dict[str, Any]) -> Iterator[str]:
    for target in data["targets"]:
        yield f"{target['target']} ({target['path']}), {_EVIDENCE}, for {target['device']}"
        yield from (f"  failed: {text}" for text in target["failures"])
        for call in target["calls"]:
            rank = f", rank {call['rank']}" if call["rank"] is not None else ""
            yield f"  {call['call']}{rank}: {call['step']}"
            for form in ("eager", "compiled"):
                yield f"    {form}: {call[form]['words']}"
            yield from (
                f"      {format_size(row['bytes'])} {row['use']} {row['line']} {row['source']}".rstrip()
                for row in call["compiled"]["held"] or call["eager"]["held"]
            )
            yield from filter(None, [call["difference"] and f"    {call['difference']}"])
            yield from (
                f"      {'+' if row['more'] > 0 else '-'}{format_size(abs(row['more']))} {row['use']} {row['line']}: "
                f"{row['cause']}"
                for row in call["changes"]
                if row["cause"]
            )
            yield from (f"    less with {saving['name']}: {saving['words']}" for saving in call["savings"])
            yield from (
                f"    less with a change of {edit['line']}: {edit['words']}" for edit in call["edits"]
            )
        if target["largest_batch"]:
            batch = target["largest_batch"]
            yield f"  largest batch that fits: {batch['eager']} in eager mode, {batch['compiled']} compiled"
        yield from (f"  note: {text}" for text in target["notes"])
    yield from data["problems"]


MEMORY = declared_tool(
    "memory",
    _memory,
    device={"default": FALLBACK},
    mode={"choices": tuple(_MODES)},
    optimizer={"default": OPTIMIZERS[0], "choices": tuple(OPTIMIZERS)},
)
