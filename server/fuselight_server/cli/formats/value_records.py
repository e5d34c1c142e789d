"""Two recordings of compiled calls, as text and JSON: `fuselight open A --against B` (docs/accuracy.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fuselight.shared.codec import encode
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.terminal import Terminal
from fuselight_server.commands.value_records import CallPair, Likeness, RecordingComparison, ValuePair

_MAX_CALLS = 12
_MAX_VALUES = 4


def print_comparison(compared: RecordingComparison, terminal: Terminal) -> None:
    """Each call that both runs have, those that differ first."""
    terminal.print(f"{compared.ours}, against {compared.base}")
    if not compared.calls:
        terminal.print("The two have no call in common: a call is known by its function and by its number.")
        return
    wrong = sum(call.differs for call in compared.calls)
    shared = format_count(len(compared.calls), "call")
    verdict = f"{wrong} differ by more than rounding" if wrong else "none differs by more than rounding"
    terminal.print((f"{shared} in both: {verdict}", "bold red" if wrong else "bold"))
    ordered = sorted(compared.calls, key=lambda call: not call.differs)
    for call in ordered[:_MAX_CALLS]:
        for line in _lines(call):
            terminal.print(f"  {line}")
    terminal.print_more(len(ordered) - _MAX_CALLS, "call", indent=2)
    if compared.only_in_one:
        terminal.print(
            f"  not compared: {format_count(compared.only_in_one, 'call')} that only one of the two has"
        )


def _lines(call: CallPair) -> Iterator[str]:
    rank = f"rank {call.rank}: " if call.rank is not None else ""
    name = f"{rank}call {call.step} of `{format_target(call.name)}`"
    same = sum(pair.likeness is Likeness.SAME for pair in call.values)
    yield f"{name}: {same} of {format_count(len(call.values), 'value')} equal bit for bit"
    different = [pair for pair in call.values if pair.likeness is Likeness.DIFFERENT]
    for pair in different[:_MAX_VALUES]:
        yield f"  {pair.ours.what}: {_difference(pair)}"
    if different and call.first_line is not None:
        line = call.first_line.ours
        yield f"  first line whose value differs in eager mode: {line.path}:{line.line}"
    elif different and call.lines:
        yield (
            f"  in eager mode no line differs ({format_count(call.lines, 'operator')} compared): what was compiled does"
        )
    elif different:
        yield "  no line is in both: the source files differ"


def _difference(pair: ValuePair) -> str:
    ours, base = pair.ours, pair.base
    if ours.shape != base.shape:
        return f"shape {list(ours.shape)}, against {list(base.shape)}"
    if ours.non_finite != base.non_finite:
        return f"{ours.non_finite:,} NaN or infinite, against {base.non_finite:,}"
    return (
        f"mean {ours.mean:.4g}, root mean square {ours.size:.4g}, {ours.smallest:.4g} to {ours.largest:.4g}, against "
        f"{base.mean:.4g}, {base.size:.4g}, {base.smallest:.4g} to {base.largest:.4g}"
    )


def comparison_as_json(compared: RecordingComparison) -> str:
    """The calls that both runs have."""
    calls = [
        {
            "rank": call.rank,
            "name": call.name,
            "step": call.step,
            "differs": call.differs,
            "values": [
                {
                    "what": pair.ours.what,
                    "likeness": pair.likeness.value,
                    "ours": encode(pair.ours),
                    "base": encode(pair.base),
                }
                for pair in call.values
            ],
            "first_line": None
            if call.first_line is None
            else {"path": call.first_line.ours.path, "line": call.first_line.ours.line},
            "lines": call.lines,
            "only_in_one": call.only_in_one,
        }
        for call in compared.calls
    ]
    data = {
        "schema": 1,
        "ours": compared.ours,
        "base": compared.base,
        "calls": calls,
        "only_in_one": compared.only_in_one,
    }
    return json.dumps(data, indent=2)
