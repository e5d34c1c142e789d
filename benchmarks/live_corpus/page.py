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
        results, wrong = predictions(row, way)
        predicted += len(results)
        right += len(results) - len(wrong)
        added = set(map(tuple, row["added"]))
        true += len(added)
        hit += len(added & set(map(tuple, results)))
    return predicted, right, true, hit


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which `share` of all values are; 0 without values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def summary(outcomes: Sequence[Row]) -> str:
    """The whole comparison in Markdown."""
    rows = [outcome for outcome in outcomes if not outcome["error"]]
    failed = [outcome for outcome in outcomes if outcome["error"]]
    kinds = collections.Counter(row["kind"] for row in rows)
    lines = [
        f"{len(rows)} edits of {len({row['source'] for row in rows})} sources: "
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
    lines += ["", *(f"- left out: {entry['source']}: {entry['error']}" for entry in failed)]
    return "\n".join(lines)


def _only(rows: Sequence[Row], is_kept: Callable[[Row, int, str], bool]) -> list[Row]:
    """The outcomes with those findings alone that `is_kept(row, line, code)` keeps."""

    def kept(row: Row, name: str) -> list[Any] | None:
        value = row[name]
        return value if value is None else [at for at in value if is_kept(row, *at)]

    return [{**row, **{name: kept(row, name) for name in _FOUND}} for row in rows]


def _is_on_edit(row: Row, line: int, _code: str = "") -> bool:
    return bool(row["lines"][0] <= line <= row["lines"][1])


def _latencies(rows: Sequence[Row]) -> list[str]:
    answered = [row for row in rows if row["trace"] is not None]
    ways: tuple[tuple[str, Sequence[Row], Callable[[Row], float]], ...] = (
        ("rules", rows, lambda entry: entry["rules_ms"]),
        ("trace", answered, lambda entry: entry["trace_ms"]),
        (
            f"trace of a function of at most {SHORT_FUNCTION} lines",
            [entry for entry in answered if 0 < entry["function_lines"] <= SHORT_FUNCTION],
            lambda entry: entry["trace_ms"],
        ),
        ("whole", [row for row in rows if row["whole"] is not None], lambda entry: entry["whole_ms"]),
        ("run", [row for row in rows if row["run_ms"]], lambda entry: entry["run_ms"]),
    )
    lines = ["| ms | median | 95% | largest |", "|---|--:|--:|--:|"]
    for name, subset, value in ways:
        times = [value(entry) for entry in subset]
        lines.append(
            f"| {name} | {percentile(times, 0.5):.0f} | {percentile(times, 0.95):.0f} | {max(times, default=0):.0f} |"
        )
    return lines


def _refusals(rows: Sequence[Row]) -> list[str]:
    refused = collections.Counter(row["refused"][:100] for row in rows if row["refused"])
    return [f"- no trace, {count} times: {why}" for why, count in refused.most_common()]


def _removals(rows: Sequence[Row]) -> str:
    gone = sum(row["gone"] for row in rows if row["kept"] is not None)
    kept = sum(row["kept"] or 0 for row in rows)
    return f"- findings that an edit removed elsewhere than on its lines: {gone}; still traced: {kept}"


def _false_alarms(rows: Sequence[Row]) -> list[str]:
    lines = []
    for way in ("rules", "trace", "whole"):
        for row in rows:
            for line, code in row[f"wrong_{way}"]:
                truth = ", ".join(f"{code} on {line}" for line, code in row["added"][:4]) or "nothing"
                lines.append(
                    f"- false alarm, {way}: {row['source']} `{row['function']}` {row['kind']} {row['cause']}, lines "
                    f"{row['lines'][0]} to {row['lines'][1]}: {code} on {line}; the run adds {truth}"
                )
    return lines


def _misses(rows: Sequence[Row]) -> list[str]:
    lines = ["| missed by | code | on the edited lines | elsewhere |", "|---|---|--:|--:|"]
    for way in ("rules", "both", "whole"):
        missed: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for row in rows:
            results = set(map(tuple, predictions(row, way)[0]))
            for line, code in row["added"]:
                if (line, code) not in results:
                    missed[code][0 if _is_on_edit(row, line) else 1] += 1
        for code, (here, elsewhere) in sorted(missed.items(), key=lambda item: -sum(item[1])):
            lines.append(f"| {way} | {code} | {here} | {elsewhere} |")
    return [*lines, "", *_by_cause(rows)]


def _by_cause(rows: Sequence[Row]) -> list[str]:
    """How many breaks on the edited lines each way found, by cause."""
    lines = ["| cause | breaks on the edited lines | rules | trace |", "|---|--:|--:|--:|"]
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    for row in rows:
        true = {
            (line, code)
            for line, code in row["added"]
            if _is_on_edit(row, line) and not code.startswith((*RECOMPILATIONS, *SPECIALIZATIONS))
        }
        count = counts[row["cause"]]
        count[0] += len(true)
        count[1] += len(true & set(map(tuple, row["rules"])))
        count[2] += len(true & set(map(tuple, row["trace"] or ())))
    lines += [f"| {cause} | {a} | {b} | {c} |" for cause, (a, b, c) in sorted(counts.items()) if a]
    return lines
