"""Run every row of a built-in suite through Fuselight, and compare with torch's own record of the same run.

    python benchmarks/studies/suite.py run --results FILE [--do capture|open|kernels|tune] [--suite pytorch-163] [--size tiny]
                                   [--train] [--device h100-sxm] [--python PATH] [--models bert,resnet] [--part 1/4]
    python benchmarks/studies/suite.py page --results FILE [--sweep FILE]... --page docs/results/suite.md

`run` captures each row in Fuselight's worker while torch writes its own record in the same process; with `--do open` it
compares the findings of the capture with those that `fuselight open` has of this record; with `--do
kernels` it generates the row's kernels for a GPU that may be absent, with `--do tune` it searches for the row's fastest
configuration on a GPU. Each row is a line of FILE as soon as it is known;
what FILE has is not run again, so that an interrupted run goes on. `page`
makes the page. `--sweep` adds results of `fuselight sweep pytorch-163`, whose rows have the same names: kernels, where
FILE has none, and times from a machine with a GPU.

Compared are sets: graphs by compile ID, breaks by line and ID, findings made of them, recompilations by compile ID,
frames that torch did not compile, and errors. A row agrees if nothing is missing and nothing is there that torch did
not record. A row that fails by itself is not compared. Exits with 1 if a row disagrees.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.accuracy import (  # noqa: E402 - the path is set above
    Key,
    Score,
    break_keys,
    compare,
    error_keys,
    finding_keys,
    process_logs,
    recorded,
    refusal_keys,
)
from benchmarks.studies.suite_page import suite_page  # noqa: E402
from fuselight.shared.devices import find  # noqa: E402
from fuselight.shared.measurement_plans import TunePlan  # noqa: E402
from fuselight.shared.protocol import CaptureRequest, GenerateRequest, Limits  # noqa: E402
from fuselight.shared.report import Culprit, NotCompiledKind, Outcome, Report, Work  # noqa: E402
from fuselight.shared.suites import SIZES, SUITES, SuiteRow, suite_rows, write_rows  # noqa: E402
from fuselight_server.base.cancellation import CancelToken  # noqa: E402
from fuselight_server.commands.open import OpenRequest, open_jobs  # noqa: E402
from fuselight_server.commands.options import CommandOptions  # noqa: E402
from fuselight_server.commands.outcome import CheckOutcome  # noqa: E402
from fuselight_server.commands.targets import TargetRun, report_each  # noqa: E402
from fuselight_server.explain.findings import findings  # noqa: E402
from fuselight_server.explain.findings.common.counts import counts  # noqa: E402
from fuselight_server.explain.kernels.summary import one_call  # noqa: E402
from fuselight_server.explain.searches.planning import tune_request  # noqa: E402
from tests.support.traced_findings import RECORDING, Place, places  # noqa: E402
from tests.support.traced_findings import agreement as opened_agreement  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNNAMED: Key = ("", 0, "")
_NOT_RUN = (Culprit.USER, Culprit.ENVIRONMENT)
"""Who failed if a row cannot run here: its packages, or this machine."""
_LIMITS = (NotCompiledKind.RECOMPILE_LIMIT, NotCompiledKind.ACCUMULATED_LIMIT)
_WHY = 300
"""Characters of a reason."""


def recorded_compiles(folder: Path) -> dict[str, set[Key]]:
    """Graphs and recompilations of the logs in the folder by compile ID, and the functions at a recompile limit."""
    from fuselight.capture.dynamo.stacks import user_function  # noqa: PLC0415 - torch, where it is needed
    from fuselight_server.jobs.reports.conversion import read_unmapped_report  # noqa: PLC0415

    compiles: dict[str, set[Key]] = {"graphs": set(), "recompilations": set(), "limits": set()}
    for parts in map(read_unmapped_report, process_logs(folder)):
        for name, keys in compile_keys(parts).items():
            compiles[name] |= keys
        compiles["limits"] |= {
            (uncompiled_code.location.path, 0, user_function(uncompiled_code.function.rpartition(".")[2]))
            for uncompiled_code in parts.not_compiled
            if uncompiled_code.kind in _LIMITS
        }
    return compiles


def compile_keys(parts: Any) -> dict[str, set[Key]]:
    """Graphs and recompilations of a Report, or of what torch recorded, by compile ID."""
    graphs = [
        record.id
        for record in parts.compiles
        if record.graph is not None and record.outcome is Outcome.COMPILED
    ]
    again = [
        recompilation.compile_id for recompilation in parts.recompiles if recompilation.compile_id is not None
    ]
    return {
        "graphs": {(graph, 0, None) for graph in graphs},
        "recompilations": {(value, 0, None) for value in again},
    }


def agreement(report: Report, folder: Path) -> dict[str, Score]:
    """The score of each kind of fact, of a Report and of what torch recorded of the same run."""
    record = {**recorded(folder), **recorded_compiles(folder)}
    if _UNNAMED in record["refusals"]:  # torch's record of a limit has the compile ID, and no function
        record["refusals"] = (record["refusals"] - {_UNNAMED}) | record["limits"]
    answer = {
        "breaks": break_keys(report),
        "refusals": refusal_keys(report),
        "errors": error_keys(report),
        **compile_keys(report),
    }
    scores = {name: compare(record[name], answer[name]) for name in answer}
    findings = finding_keys(report)
    if findings is not None:
        scores["findings"] = compare(record["breaks"], findings)
    return scores


def captured_row(report: Report, folder: Path) -> dict[str, Any]:
    """What the capture of a row tells, and whether torch's record agrees."""
    numbers = counts(report)
    has_failed = any(failure.culprit in _NOT_RUN for failure in report.failures)
    graphs = {
        record.frame: record.graph
        for record in reversed(report.compiles)
        if record.outcome is Outcome.COMPILED and record.graph
    }
    scores = agreement(report, folder)
    differs = {
        name: {"missing": list(score.missing), "surplus": list(score.surplus)}
        for name, score in scores.items()
        if not has_failed and (score.missing or score.surplus)
    }
    return {
        "graphs": numbers.graphs,
        "breaks": numbers.breaks,
        "recompilations": numbers.recompilations,
        "operators": sum(graph.operators for graph in graphs.values()),
        "facts": {name: [score.recorded, score.reported] for name, score in scores.items()},
        "agrees": None if has_failed else not differs,
        "differs": differs,
        "failure": _failure(report),
        "problems": [f"{problem.stage}: {problem.what}: {problem.why}"[:_WHY] for problem in report.problems],
    }


async def opened_row(report: Report, folder: Path) -> dict[str, Any]:
    """How far the findings of a run and those of `fuselight open` of its record are the same."""
    of_run = places(findings(report))
    of_trace: set[Place] = set()
    if any(folder.glob("*.log")):  # without a compile there is no log
        source = Path(report.target.path).parent
        jobs = await open_jobs(OpenRequest((folder,), (source,)), lambda _text: None, CancelToken())
        of_trace = places(finding for job in jobs for finding in job.findings)
    compared = opened_agreement(of_run, of_trace, {Path(report.target.path).name})
    has_failed = any(failure.culprit in _NOT_RUN for failure in report.failures)
    return {
        "findings": len(of_run),
        **dataclasses.asdict(compared),
        "agrees": None if has_failed else compared.is_complete,
        "failure": _failure(report),
    }


def kernels_row(report: Report) -> dict[str, Any]:
    """How many kernels one call of a row launches on the device, or why that is not known."""
    if report.failures:
        return {"kernels_failure": _failure(report)}
    lost = [graph.failure for graph in report.generated if graph.failure is not None]
    return {
        "kernels": sum(len(graph.kernels) for graph in one_call(report).generated),
        "graphs_without_kernels": len(lost),
        "kernels_failure": str(getattr(lost[0], "message", lost[0]))[:_WHY] if lost else "",
    }


def tuned_row(report: Report) -> dict[str, Any]:
    """The times of a row on a GPU, or why there are none."""
    tuned = report.tuned
    if tuned is None or tuned.result is None:
        return {"tune_failure": _failure(report) or "the search came to no decision"}
    result = tuned.result
    return {
        "eager": f"{result.eager_us / 1000:.2f} ms" if result.eager_us else "–",
        "default": f"{result.default_us / 1000:.2f} ms",
        "tuned": f"{result.gain:.2f}× default",
        "accuracy": result.accuracy,
        "configuration": result.configuration,
        "timed_on": result.device,
        "search_seconds": round(tuned.seconds or 0.0, 1),
    }


def _failure(report: Report) -> str:
    return report.failures[0].message.strip().splitlines()[0][:_WHY] if report.failures else ""


def known_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of a results file by group and name, each with all that its lines say."""
    rows: dict[str, dict[str, Any]] = {}
    for line in _lines(path):
        if "name" in line:
            rows.setdefault(f"{line['group']}/{line['name']}", {}).update(line)
    return rows


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; a torn last line is none."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            lines.append(json.loads(line))
    return lines


@dataclass(frozen=True)
class SuiteRun:
    """The rows of a suite that a results file lacks."""

    results: Path
    options: argparse.Namespace

    def missing(self) -> list[SuiteRow]:
        """The chosen rows without a result."""
        options, known = self.options, known_rows(self.results)
        done = {
            key
            for key, row in known.items()
            if row["absent"]
            or f"{options.do}_seconds" in row
            or (options.do != "capture" and row.get("failure"))
        }
        parts = [part.strip().lower() for part in options.models.split(",") if part.strip()]
        rows = [
            row
            for row in suite_rows(options.suite, size=options.size, training=options.train)
            if f"{row.group}/{row.name}" not in done
            and (not parts or any(part in row.name.lower() for part in parts))
        ]
        if options.do == "kernels":  # those that take long come last
            rows.sort(key=lambda row: known.get(f"{row.group}/{row.name}", {}).get("operators", 0))
        number, _, count = options.part.partition("/")
        return rows[int(number) - 1 :: int(count)]

    def write(self, line: dict[str, Any]) -> None:
        """Add a line that a crash after this call does not lose."""
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def keep(self, row: SuiteRow, entries: dict[str, Any]) -> None:
        """Write and print a row."""
        options = self.options
        head = {"suite": options.suite, "size": options.size, "training": options.train}
        if options.do == "tune":  # beside the row's other facts, which are those of another size
            head = {"suite": options.suite, "timed_size": options.size}
        line = {
            "name": row.name,
            "group": row.group,
            **head,
            "note": row.note,
            "absent": row.absent,
            **entries,
        }
        self.write(line)
        print(_line(line), flush=True)

    async def run(self) -> None:
        """Run what is missing; each row becomes a line."""
        rows = self.missing()
        self.write({"about": about(self.options.python, rows)})
        for row in rows:
            if row.absent:
                self.keep(row, {})
        with tempfile.TemporaryDirectory(prefix="fuselight-suite-", ignore_cleanup_errors=True) as directory:
            folder = Path(directory).resolve()
            trace = folder / "trace"
            trace.mkdir()
            paths = write_rows(rows, str(folder / "rows"))
            present = {Path(paths[row.file]): row for row in rows if not row.absent}
            if present:
                await self._run_files(present, trace)

    async def _run_files(self, present: dict[Path, SuiteRow], trace: Path) -> None:
        for path, row in present.items():
            is_recorded = self.options.do in {"capture", "open"}
            recording = f"\n\n{RECORDING.format(folder=str(trace))}" if is_recorded else ""
            path.write_text(row.text + recording, encoding="utf-8")
        folders = (str(ROOT / "benchmarks" / "studies" / "cpu_torchvision"), os.environ.get("PYTHONPATH", ""))
        os.environ.update(HF_HUB_OFFLINE="1", PYTHONPATH=os.pathsep.join(filter(None, folders)))
        options, device = self.options, find(self.options.device)

        async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
            began = time.monotonic()
            for log in trace.glob("*.log"):
                log.unlink()
            if options.do == "capture":
                report = await target_run.run_report(target_run.request.of_kind(CaptureRequest))
                entries = captured_row(report, trace)
            elif options.do == "open":
                report = await target_run.run_report(target_run.request.of_kind(CaptureRequest))
                entries = await opened_row(report, trace)
            elif options.do == "tune":
                plan = TunePlan(
                    work=Work.FORWARD_BACKWARD if options.train else Work.INFERENCE,
                    device="cuda",
                    budget_seconds=options.budget,
                    seconds=1.0,
                    limit_seconds=options.seconds,
                    jobs=options.jobs,
                )
                report = await target_run.run_report(tune_request(target_run.request, plan))
                entries = tuned_row(report)
            else:
                report = await target_run.run_report(target_run.request.of_kind(GenerateRequest, device=device))
                entries = {**kernels_row(report), "device": device.key}
            entries[f"{options.do}_seconds"] = round(time.monotonic() - began, 1)
            self.keep(present[Path(target_run.request.target.path)], entries)
            return Report(
                report.versions, report.target, report.tier, 0
            )  # all of a suite's would be gigabytes

        limits = Limits(seconds=options.seconds, memory_mb=options.memory)
        command = CommandOptions(tuple(present), ("model",), options.python, limits=limits)
        outcome = await report_each(command, lambda _text: None, CancelToken(), report_of)
        for problem in outcome.problems:
            print(f"{problem.what}: {problem.why}", flush=True)


_VERSIONS = """
import importlib.metadata, json, platform, sys
found = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = ""
print(json.dumps(found))
"""


def about(python: str, rows: Iterable[SuiteRow]) -> dict[str, Any]:
    """The machine, and the versions of what the rows need in the interpreter that runs them; empty: not installed."""
    names = sorted({"torch", "torchvision", *(package for row in rows for package in row.packages)})
    done = subprocess.run([python, "-c", _VERSIONS, *names], capture_output=True, text=True, check=True)
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        processor = next(
            (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")),
            processor,
        )
    machine = f"{os.cpu_count()} cores, {processor}, {platform.system()}"
    return {"machine": machine, "versions": json.loads(done.stdout)}


def _line(row: dict[str, Any]) -> str:
    if row["absent"]:
        return f"{row['name']:<40} absent: {row['absent']}"
    if "tune_seconds" in row:
        shown = row.get("tune_failure") or f"{row['default']} {row['tuned']} {row['configuration']}"
        return f"{row['name']:<40} {row['tune_seconds']:>6} s {shown}"
    if "kernels_seconds" in row:
        numbers = f"{row.get('kernels', '-'):>5} kernels {row['kernels_seconds']:>6} s"
        return f"{row['name']:<40} {numbers} {row['kernels_failure']}".rstrip()
    if "open_seconds" in row:
        shown = {True: "agrees", None: f"not run: {row['failure']}"}.get(row["agrees"]) or (
            f"DIFFERS missing {row['missing']} surplus {row['surplus']}"
        )
        return f"{row['name']:<40} {row['equal']} of {row['findings']} {row['open_seconds']:>6} s {shown}"
    numbers = " ".join(f"{row[name]:>5}" for name in ("graphs", "breaks", "recompilations", "operators"))
    agrees = {True: "agrees", None: "not run"}.get(row["agrees"]) or f"DIFFERS {row['differs']}"
    return f"{row['name']:<40} {numbers} {row['capture_seconds']:>6} s {agrees} {row['failure']}".rstrip()


def main() -> int:
    """Run or make the page; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run a built-in suite and compare with torch's own record.")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--results", type=Path, required=True)
    running.add_argument("--suite", choices=SUITES, default="pytorch-163")
    running.add_argument("--size", choices=SIZES, default="tiny")
    running.add_argument("--do", choices=("capture", "open", "kernels", "tune"), default="capture")
    running.add_argument("--budget", type=float, default=40.0, help="seconds of each search")
    running.add_argument(
        "--jobs", type=int, default=0, help="compiles of a search side by side; 0: by cores and memory"
    )
    running.add_argument("--train", action="store_true")
    running.add_argument("--device", default="h100-sxm")
    running.add_argument("--python", default=sys.executable)
    running.add_argument("--part", default="1/1", help="K/N: every Nth row from the Kth on, for N processes")
    running.add_argument("--models", default="", help="parts of names, with commas")
    running.add_argument(
        "--seconds", type=float, default=300.0, help="time limit of a capture, and of its kernels"
    )
    running.add_argument("--memory", type=int, default=8192, help="memory limit in MB")
    paging = commands.add_parser("page")
    paging.add_argument("--results", type=Path, required=True)
    paging.add_argument(
        "--sweep", type=Path, action="append", default=[], help="results.jsonl of a sweep; repeatable"
    )
    paging.add_argument("--page", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "page":
        rows = list(known_rows(options.results).values())
        sweeps = [line for file in options.sweep for line in _lines(file)]
        options.page.write_text(suite_page(rows, _lines(options.results), sweeps), encoding="utf-8")
        return 0
    asyncio.run(SuiteRun(options.results, options).run())
    return int(any(row.get("agrees") is False for row in known_rows(options.results).values()))


if __name__ == "__main__":
    sys.exit(main())
