"""What `fuselight repro` makes of the wrong programs in tests/cases/accuracy, as the table of docs/results/repro.md.

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.repro_programs --out FOLDER [--budget 90] [NAME ...]
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.repro_programs --out FOLDER --page

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.repro_programs --out FOLDER --tracing --time-limit 60

FOLDER gets the JSON of each program; one that is there is not run again. Without names, the programs run that neither
change torch nor have an operator of their own, and whose fault is not in tracing: torch alone may show it. `--tracing`: the
programs of `tracing_faults/`, whose fault is a failure of a trace, a graph break, or a compile that does not end.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRACING = Path(__file__).parent / "tracing_faults"
PROGRAMS = ROOT / "tests" / "cases" / "accuracy" / "wrong"
_STAGE = re.compile(r"^# stage: (\w+)", re.MULTILINE)
_CHANGES = re.compile(r"custom_op|config\.|_inductor|partitioners|decompositions|lowering")
_NO_GRAPH = ("capture", "user")


def main() -> int:
    """Run the programs, or print the table; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=90.0)
    parser.add_argument("--tracing", action="store_true")
    parser.add_argument("--time-limit", type=float, default=600.0)
    parser.add_argument("--page", action="store_true", help="print the table, and run nothing")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = TRACING if options.tracing else PROGRAMS
    every = sorted(folder.glob("*.py")) if options.tracing else list(_candidates())
    paths = [folder / f"{name}.py" for name in options.names] or every
    for path in () if options.page else paths:
        kept = options.out / f"{path.stem}.json"
        if not kept.exists():
            kept.write_text(_run(path, options.budget, options.time_limit), encoding="utf-8")
    print("\n".join(_table(options.out, paths)))
    return 0


def _candidates() -> Iterator[Path]:
    for path in sorted(PROGRAMS.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        stage = _STAGE.search(source)
        if stage is not None and stage[1] not in _NO_GRAPH and not _CHANGES.search(source):
            yield path


def _run(path: Path, budget: float, limit: float) -> str:
    command = [sys.executable, "-m", "fuselight_server", "repro", str(path), "--format", "json"]
    ran = subprocess.run([*command, "--budget", f"{budget:g}", "--time-limit", f"{limit:g}"], stdout=subprocess.PIPE, check=False)
    return ran.stdout.decode()


def _table(out: Path, paths: Sequence[Path]) -> Iterator[str]:
    rows = [
        (path.stem, json.loads(kept.read_text()))
        for path in paths
        if (kept := out / f"{path.stem}.json").exists()
    ]
    faults: list[tuple[str, dict[str, Any]]] = [
        (name, fault) for name, data in rows for fault in data["faults"]
    ]
    confirmed = [fault for _, fault in faults if fault["confirmed"]]
    yield f"{len(rows)} programs ran, {len(faults)} faults were seen, {len(confirmed)} have a confirmed program."
    if confirmed:
        lines, seconds = ([fault[key] for fault in confirmed] for key in ("lines", "seconds"))
        yield f"Median: {statistics.median(lines):g} lines, {statistics.median(seconds):.0f} s."
    yield ""
    yield "| program | program for torch | lines | runs | seconds |"
    yield "|---|---|--:|--:|--:|"
    for name, data in rows:
        if not data["faults"]:
            yield f"| {name} | no fault was seen | | | |"
        for fault in data["faults"]:
            words = (
                fault["title"].removeprefix("torch.compile: ")
                if fault["confirmed"]
                else f"none: {fault['why_not']}"
            )
            lines = fault["lines"] or ""
            yield f"| {name} | {words} | {lines} | {fault['tried']} | {fault['seconds']:.0f} |"


if __name__ == "__main__":
    sys.exit(main())
