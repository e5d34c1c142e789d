"""A setting of Inductor that cures a wrong region, for that region alone: an argument of its torch.compile.

Invariant: an edit is kept only if a run of the program with it, and with no setting changed, has compared the call and
found it as in eager mode, and no call is wrong that was right before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import ComparedCall, RegionEdit, ResultCause, ResultComparison, TriedSetting
from fuselight_server.base.files import split_text
from fuselight_server.base.formatting import format_target
from fuselight_server.explain.findings.common.result_words import wrong_calls
from fuselight_server.fixes.verification.accuracy_runs import AccuracyRuns, repeated_calls
from fuselight_server.fixes.verification.file_texts import FileText

_INDUCTOR = "torch._inductor.config."


async def with_region_edits(
    runs: AccuracyRuns, results: ResultComparison, texts: Mapping[str, str]
) -> ResultComparison:
    """The results, with an edit for each setting that cures a function and holds for it alone.

    `texts`: those that stand for files on the disk.
    """
    calls = {call.index: call for call in results.calls}
    known: dict[tuple[object, ...], RegionEdit | None] = {}
    causes: list[ResultCause] = []
    for cause in results.causes:
        call = calls[cause.call]
        tried = []
        for setting in cause.tried:
            key = call.name, call.location, setting.name, setting.value
            if setting.cures and key not in known:
                known[key] = await _confirmed(runs, results, call, setting, texts)
            tried.append(dataclasses.replace(setting, region=known.get(key) if setting.cures else None))
        causes.append(dataclasses.replace(cause, tried=tuple(tried)))
    return dataclasses.replace(results, causes=tuple(causes))


async def _confirmed(
    runs: AccuracyRuns,
    results: ResultComparison,
    call: ComparedCall,
    setting: TriedSetting,
    texts: Mapping[str, str],
) -> RegionEdit | None:
    """The edit, if a run with it shows that it cures."""
    paths = (call.location, call.caller)
    files = dict.fromkeys(place.path for place in paths if place is not None)
    for path, old, new in _candidates(call, setting, files, texts):
        edit = _edit_of(path, old, new)
        if edit is None:
            continue
        words = f"trying `{_argument(setting)}` for {format_target(call.name)} alone"
        report = await runs.report(words, texts={path: new})
        again = report.results
        fixed = repeated_calls(again, {call.index: call}).get(call.index)
        wrong = {each.index for each in wrong_calls(again)} if again is not None else set()
        is_worse = bool(wrong - {each.index for each in wrong_calls(results)})
        return edit if fixed is not None and fixed.is_as_eager and not is_worse else None
    return None


def _candidates(
    call: ComparedCall, setting: TriedSetting, files: Iterable[str], texts: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """A file, its text, and the text with the argument, where it is certain which call compiles the function."""
    argument = _argument(setting)
    if not argument:
        return
    from fuselight_server.fixes.rewrites.compile_calls import (  # noqa: PLC0415 - LibCST: servers start without it
        CompiledFunction,
        with_argument,
    )

    for path in files:
        text = texts.get(path) or _read(path)
        line = call.location.line if call.location is not None and call.location.path == path else 0
        new = with_argument(path, text, argument, CompiledFunction(call.name, line)) if text else None
        if text and new is not None:
            yield path, text, new


def _argument(setting: TriedSetting) -> str:
    """`options={"pattern_matcher": False}`; empty for what torch.compile does not take."""
    if not setting.name.startswith(_INDUCTOR) or setting.value == "None":
        return ""
    return f'options={{"{setting.name.removeprefix(_INDUCTOR)}": {setting.value}}}'


def _read(path: str) -> str:
    if path.endswith(SUFFIX):  # its cells are written by other edits
        return ""
    try:
        return FileText.read(path).text
    except (OSError, SyntaxError, ValueError, LookupError):
        return ""


def _edit_of(path: str, old: str, new: str) -> RegionEdit | None:
    """The one line that differs between two texts."""
    lines, others = split_text(old), split_text(new)
    numbers = [
        number for number, pair in enumerate(zip(lines, others, strict=False), 1) if len(set(pair)) > 1
    ]
    if len(lines) != len(others) or len(numbers) != 1:
        return None
    (number,) = numbers
    return RegionEdit(path, number, lines[number - 1], others[number - 1])
