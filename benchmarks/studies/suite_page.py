"""docs/results/suite.md, from the results of `benchmarks/studies/suite.py` and of sweeps.

Invariant: a number that nobody measured is a dash. Rows of a sweep are taken by group and name, as JSON: `job`, and
what its rows say of it.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

from fuselight_server.base.formatting import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]
_GROUPS = {"huggingface": "Hugging Face", "timm": "TIMM", "torchbench": "TorchBench"}
_NONE = "–"
_COUNTED = ("graphs", "breaks", "recompilations", "operators", "kernels")
_TIMED = ("eager", "default", "tuned", "accuracy")
_FACTS = {
    "graphs": "graphs",
    "breaks": "graph breaks",
    "findings": "findings of graph breaks",
    "recompilations": "recompilations",
    "refusals": "frames that torch did not compile",
    "errors": "errors of TorchDynamo",
}


def suite_page(rows: Sequence[Row], lines: Iterable[Row], sweeps: Iterable[Row]) -> str:
    """The page. `rows`: one for each model; `lines`: those of their file, which name machine and versions."""
    merged = with_sweeps(rows, sweeps)
    abouts = [line["about"] for line in lines if "about" in line]
    is_timed = any(name in row for row in merged for name in _TIMED)
    parts = [_INTRODUCTION, _about(merged, abouts), _summary(merged), _agreement(merged)]
    for group, title in _GROUPS.items():
        named = sorted((row for row in merged if row["group"] == group), key=lambda row: row["name"].lower())
        parts.append(_table(title, named, is_timed=is_timed))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def with_sweeps(rows: Sequence[Row], sweeps: Iterable[Row]) -> list[Row]:
    """The rows, each with what sweeps say of the same model."""
    entries: dict[tuple[str, str], Row] = {}
    for row in rows:
        kept = entries[row["group"], row["name"]] = dict(row)
        if kept.get("graphs_without_kernels"):  # a count of some of its graphs is no number of kernels
            kept.pop("kernels", None)
    for line in sweeps:
        key = (str(line.get("group", "")), str(line.get("name", "")).partition(":")[0])
        if key not in entries or line.get("status") != "done":
            continue
        row = entries[key]
        if line.get("kernels") is not None:
            row.setdefault("kernels", line["kernels"])
        if line.get("configurations"):
            row.update(_times(line))
    return list(entries.values())


def _times(line: Row) -> Row:
    timed = {configuration["name"]: configuration for configuration in line["configurations"]}
    times = {
        name: f"{timed[name]['us'] / 1000:.2f} ms"
        for name in ("eager", "default")
        if timed.get(name, {}).get("us") is not None
    }
    if line.get("gain") is not None:
        times["tuned"] = f"{line['gain']:.2f}× default"
    checked = [value["is_accurate"] for value in timed.values() if value.get("is_accurate") is not None]
    if checked:
        times["accuracy"] = "right" if all(checked) else "differs"
    return times


_INTRODUCTION = """\
# The models that torch.compile was introduced with

Each of the 163 models of the suite `pytorch-163` ([suites.md](../suites.md)) in its tiny size: what Fuselight reports
of one call, and whether torch's own record of the same run agrees. This page is made by
[benchmarks/studies/suite.py](../../benchmarks/studies/suite.py)."""


def _about(rows: Sequence[Row], abouts: Sequence[Row]) -> str:
    sizes = sorted({f"{row['size']}, {'training' if row['training'] else 'inference'}" for row in rows})
    devices = sorted({row["device"] for row in rows if row.get("device")})
    table = ["| | |", "|---|---|", f"| rows | {'; '.join(sizes)} |"]
    for machine in dict.fromkeys(entry["machine"] for entry in abouts):
        # A name may have several: some rows need another build of torch.
        versions: dict[str, dict[str, None]] = {}
        for entry in abouts:
            for name, version in entry["versions"].items() if entry["machine"] == machine else ():
                versions.setdefault(name, {}).update({version: None} if version else {})
        shown = [f"{name} {' and '.join(version)}" for name, version in versions.items() if version]
        table.append(f"| machine | {machine} |")
        table.append(f"| versions | {', '.join(shown)} |")
    if devices:
        table.append(f"| kernels for | {', '.join(devices)}, without that GPU |")
    timed = [row for row in rows if row.get("timed_on")]
    where = sorted({f"{row['timed_on']}, `{row['timed_size']}` sizes" for row in timed})
    if timed:
        table.append(f"| times of {format_count(len(timed), 'model')} | {'; '.join(where)}: `--do tune` |")
    table.append("| raw results | [suite.jsonl](suite.jsonl) |")
    return "\n".join(table) + f"\n\n```console\n{_COMMANDS}```"


_COMMANDS = """\
$ python benchmarks/studies/suite.py run --results docs/results/suite.jsonl
$ python benchmarks/studies/suite.py run --results docs/results/suite.jsonl --do kernels
$ python benchmarks/studies/suite.py run --results docs/results/suite.jsonl --do tune --size real --budget 40   # on a GPU
$ python benchmarks/studies/suite.py page --results docs/results/suite.jsonl --page docs/results/suite.md
"""


def _summary(rows: Sequence[Row]) -> str:
    ran = [row for row in rows if row.get("agrees") is not None]
    absent = [row for row in rows if row["absent"]]
    failed = [row for row in rows if not row["absent"] and row.get("agrees") is None]
    agree = sum(row["agrees"] for row in ran)
    breaks = sum(row["breaks"] > 0 for row in ran)
    text = (
        f"**{agree} of {format_count(len(ran), 'model')} that ran agree with torch's record.** "
        f"{format_count(len(absent), 'model')} without a file, because no package ships them; {len(failed)} that did "
        f"not run here. {format_count(breaks, 'model')} with graph breaks. A row is one call: only a model that calls "
        "its own parts with other shapes compiles again."
    )
    generated = sum("kernels" in row for row in rows)
    number = "each model that ran" if generated == len(ran) else format_count(generated, "model")
    text += f" Kernels were generated for {number}."
    if any(row.get("timed_on") for row in rows):
        text += (
            " Times are of a search (eager, `default`, and the gain of the tuned configuration): `1.00× default` says "
            "that nothing was faster than `default` within the budget."
        )
    return "\n".join(textwrap.wrap(text, 120))


def _agreement(rows: Sequence[Row]) -> str:
    totals, counts, missing, surplus = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        if row.get("agrees") is None:
            continue
        for name, numbers in row["facts"].items():
            totals[name] += numbers[0]
            counts[name] += numbers[1]
            missing[name] += len(row["differs"].get(name, {}).get("missing", ()))
            surplus[name] += len(row["differs"].get(name, {}).get("surplus", ()))
    lines = ["| fact | torch recorded | Fuselight reports | recall | precision |", "|---|--:|--:|--:|--:|"]
    for name, words in _FACTS.items():
        recall = 1 - missing[name] / totals[name] if totals[name] else None
        precision = 1 - surplus[name] / counts[name] if counts[name] else None
        shares = " | ".join(_NONE if value is None else f"{value:.2f}" for value in (recall, precision))
        lines.append(f"| {words} | {totals[name]:,} | {counts[name]:,} | {shares} |")
    return "\n".join(lines)


def _table(title: str, rows: Sequence[Row], *, is_timed: bool) -> str:
    timed = _TIMED if is_timed else ()
    head = ["model", *_COUNTED, "agreement", *timed, "remark"]
    kinds = ["---", *["--:"] * len(_COUNTED), "---", *["--:"] * len(timed), "---"]
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|{'|'.join(kinds)}|"]
    for row in rows:
        counted = [f"{row[name]:,}" if _has_run(row) and name in row else _NONE for name in _COUNTED]
        agreement = {True: "yes", False: "**no**"}.get(row.get("agrees"), _NONE)  # type: ignore[arg-type] # or None
        times = [row.get(name, _NONE) for name in timed]
        lines.append(f"| `{row['name']}` | {' | '.join([*counted, agreement, *times, _remark(row)])} |")
    return "\n".join(lines)


def _has_run(row: Row) -> bool:
    return row.get("agrees") is not None


def _remark(row: Row) -> str:
    lost = "" if "kernels" in row else row.get("kernels_failure", "")
    reasons = (row["absent"], row.get("failure", ""), lost, row["note"])
    return "; ".join(reason.replace("|", "\\|") for reason in reasons if reason)
