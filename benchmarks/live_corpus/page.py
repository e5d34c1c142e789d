"""Outcomes as text: precision and recall of each way, latencies, each false alarm, and the misses by cause."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, Any]

RECOMPILATIONS = ("FL2",)
"""Codes of recompilations and guards, which no prediction has."""
SPECIALIZATIONS = ("FL3",)
_FOUND = ("added", "rules", "trace", "whole", "wrong_rules", "wrong_trace", "wrong_whole")
"""Fields of an outcome that hold lines and codes."""
SHORT_FUNCTION = 60
"""Lines of the functions whose times are given apart."""


def predictions(row: Row, way: str) -> tuple[list[Any], list[Any]]:
    """What one way predicts for an edit, and what of it is wrong. With both, the trace wins where it answered."""
    if way == "both":
        way = "rules" if row["trace"] is None else "trace"
    return row[way] or [], row[f"wrong_{way}"]


def scores(rows: Sequence[Row], way: str) -> tuple[int, int, int, int]:
    """Findings predicted, right ones of them, findings of the runs, and those of them that were predicted."""
    predicted = right = true = hit = 0
    for row in rows:
        made, wrong = predictions(row, way)
        predicted += len(made)
        right += len(made) - len(wrong)
        added = set(map(tuple, row["added"]))
        true += len(added)
        hit += len(added & set(map(tuple, made)))
    return predicted, right, true, hit


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which `share` of all values are; 0 without values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def summary(outcomes: Sequence[Row]) -> str:
    """The whole comparison in Markdown."""
    rows = [one for one in outcomes if not one["error"]]
    failed = [one for one in outcomes if one["error"]]
    kinds = collections.Counter(one["kind"] for one in rows)
    lines = [
        f"{len(rows)} edits of {len({one['source'] for one in rows})} sources: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "",
        "| | predicted | right | precision | in the runs | found | recall |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    covered = _only(rows, lambda _row, _line, code: not code.startswith(RECOMPILATIONS))
    breaks = _only(covered, lambda _row, _line, code: not code.startswith(SPECIALIZATIONS))
    for words, subset in (
        ("", covered),
        (", without specializations", breaks),
        (", on the edited lines", _only(covered, _is_on_edit)),
        (", all findings", rows),
    ):
        for way in ("rules", "trace", "both", "whole"):
            predicted, right, true, hit = scores(subset, way)
            precision = f"{right / predicted:.3f}" if predicted else "-"
            recall = f"{hit / true:.3f}" if true else "-"
            lines.append(
                f"| {way}{words} | {predicted} | {right} | {precision} | {true} | {hit} | {recall} |"
            )
    lines += [
        "",
        *_latencies(rows),
        "",
        *_refusals(rows),
        "",
        _removals(rows),
        "",
        *_false_alarms(rows),
    ]
    lines += ["", *_misses(rows)]
    lines += ["", *(f"- left out: {one['source']}: {one['error']}" for one in failed)]
    return "\n".join(lines)


def _only(rows: Sequence[Row], is_kept: Callable[[Row, int, str], bool]) -> list[Row]:
    """The outcomes with those findings alone that `is_kept(row, line, code)` keeps."""

    def kept(row: Row, name: str) -> list[Any] | None:
        found = row[name]
        return found if found is None else [at for at in found if is_kept(row, *at)]

    return [{**one, **{name: kept(one, name) for name in _FOUND}} for one in rows]


def _is_on_edit(row: Row, line: int, _code: str = "") -> bool:
    return bool(row["lines"][0] <= line <= row["lines"][1])


def _latencies(rows: Sequence[Row]) -> list[str]:
    answered = [one for one in rows if one["trace"] is not None]
    ways: tuple[tuple[str, Sequence[Row], Callable[[Row], float]], ...] = (
        ("rules", rows, lambda one: one["rules_ms"]),
        ("trace", answered, lambda one: one["trace_ms"]),
        (
            f"trace of a function of at most {SHORT_FUNCTION} lines",
            [one for one in answered if 0 < one["function_lines"] <= SHORT_FUNCTION],
            lambda one: one["trace_ms"],
        ),
        ("whole", [one for one in rows if one["whole"] is not None], lambda one: one["whole_ms"]),
        ("run", [one for one in rows if one["run_ms"]], lambda one: one["run_ms"]),
    )
    lines = ["| ms | median | 95% | largest |", "|---|--:|--:|--:|"]
    for name, subset, value in ways:
        times = [value(one) for one in subset]
        lines.append(
            f"| {name} | {percentile(times, 0.5):.0f} | {percentile(times, 0.95):.0f} | {max(times, default=0):.0f} |"
        )
    return lines


def _refusals(rows: Sequence[Row]) -> list[str]:
    refused = collections.Counter(one["refused"][:100] for one in rows if one["refused"])
    return [f"- no trace, {count} times: {why}" for why, count in refused.most_common()]


def _removals(rows: Sequence[Row]) -> str:
    gone = sum(one["gone"] for one in rows if one["kept"] is not None)
    kept = sum(one["kept"] or 0 for one in rows)
    return f"- findings that an edit removed elsewhere than on its lines: {gone}; still traced: {kept}"


def _false_alarms(rows: Sequence[Row]) -> list[str]:
    lines = []
    for way in ("rules", "trace", "whole"):
        for one in rows:
            for line, code in one[f"wrong_{way}"]:
                truth = ", ".join(f"{code} on {line}" for line, code in one["added"][:4]) or "nothing"
                lines.append(
                    f"- false alarm, {way}: {one['source']} `{one['function']}` {one['kind']} {one['cause']}, lines "
                    f"{one['lines'][0]} to {one['lines'][1]}: {code} on {line}; the run adds {truth}"
                )
    return lines


def _misses(rows: Sequence[Row]) -> list[str]:
    lines = ["| missed by | code | on the edited lines | elsewhere |", "|---|---|--:|--:|"]
    for way in ("rules", "both", "whole"):
        missed: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for one in rows:
            made = set(map(tuple, predictions(one, way)[0]))
            for line, code in one["added"]:
                if (line, code) not in made:
                    missed[code][0 if _is_on_edit(one, line) else 1] += 1
        for code, (here, elsewhere) in sorted(missed.items(), key=lambda item: -sum(item[1])):
            lines.append(f"| {way} | {code} | {here} | {elsewhere} |")
    return [*lines, "", *_by_cause(rows)]


def _by_cause(rows: Sequence[Row]) -> list[str]:
    """How many breaks on the edited lines each way found, by cause."""
    lines = ["| cause | breaks on the edited lines | rules | trace |", "|---|--:|--:|--:|"]
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    for one in rows:
        true = {
            (line, code)
            for line, code in one["added"]
            if _is_on_edit(one, line) and not code.startswith((*RECOMPILATIONS, *SPECIALIZATIONS))
        }
        found = counts[one["cause"]]
        found[0] += len(true)
        found[1] += len(true & set(map(tuple, one["rules"])))
        found[2] += len(true & set(map(tuple, one["trace"] or ())))
    lines += [f"| {cause} | {a} | {b} | {c} |" for cause, (a, b, c) in sorted(counts.items()) if a]
    return lines
