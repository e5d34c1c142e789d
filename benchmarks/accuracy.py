"""Compare Fuselight's graph breaks with torch's own record: no fewer, and no more.

    python benchmarks/accuracy.py [--models bert,gpt2] [--json]

For each architecture, in eval and in train mode and with fullgraph=True, one process runs the model under the
Recorder and under TORCH_TRACE at once: same inputs, grad mode, settings and calls. The Recorder has
torch write true lines for code after breaks (`torch_api/dynamo/line_numbers.py`), here too. The universes are
the distinct (file, line, first id) of the `dynamo_graph_break_reason` records that say "Graph break in user code at",
the frames for which `compilation_metrics` records a failure, and (file, line, id) of the `dynamo_error` records.
Prints recall and precision per model, of the Report's facts and, where the server is importable, of the findings made
from them; both must be 1.00, else it exits with 1.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.architectures import MODELS  # noqa: E402 - the path is set above
from benchmarks.table import Row  # noqa: E402

if TYPE_CHECKING:
    from fuselight_server.jobs.trace_log.model import ProcessLog

Key = tuple[str, int, "str | None"]
LEVELS = ("breaks", "findings", "refusals", "errors")
MODES = ("eval", "train", "fullgraph")


@dataclass(frozen=True)
class Score:
    """How one run compares."""

    recorded: int
    reported: int
    missing: tuple[Key, ...]
    surplus: tuple[Key, ...]

    @property
    def recall(self) -> float:
        """Share of torch's records that are reported; 1 without records."""
        return 1 - len(self.missing) / self.recorded if self.recorded else 1.0

    @property
    def precision(self) -> float:
        """Share of the reported facts that torch recorded; 1 without reported facts."""
        return 1 - len(self.surplus) / self.reported if self.reported else 1.0


def compare(recorded: set[Key], entries: set[Key]) -> Score:
    """The score of one set against torch's."""
    return Score(
        len(recorded),
        len(entries),
        tuple(sorted(recorded - entries, key=str)),
        tuple(sorted(entries - recorded, key=str)),
    )


def process_logs(folder: Path) -> list[ProcessLog]:
    """The logs in the folder; none if the model compiled nothing."""
    from fuselight_server.jobs.trace_log.reader import read_jobs  # noqa: PLC0415 - as above

    jobs = read_jobs([folder]) if any(folder.glob("*.log")) else ()
    return [process for job in jobs for process in job.processes]


def recorded(folder: Path) -> dict[str, set[Key]]:
    """The universes: what the logs in the folder say."""
    from fuselight.capture.dynamo.stacks import from_text, user_function  # noqa: PLC0415 - torch, where it is needed
    from fuselight.shared.torch_texts import read_reasons  # noqa: PLC0415
    from fuselight_server.jobs.trace_log.payloads import read_text  # noqa: PLC0415

    out: dict[str, set[Key]] = {"breaks": set(), "refusals": set(), "errors": set()}
    for process in process_logs(folder):
        for attempt in (attempt for compiled in process.compiles for attempt in compiled.attempts):
            for item in attempt.breaks:
                out["breaks"].add((item.location.path, item.location.line, item.chain[0].gb_id))
            for metrics in attempt.metrics:
                if metrics.fail_type is not None:
                    out["refusals"].add((metrics.path or "", 0, user_function(metrics.function or "")))
            for error in attempt.errors:
                text = read_text(error.payload)
                where = from_text(text)
                if where:
                    out["errors"].add((where[-1].path, where[-1].line, read_reasons(text)[0].gb_id))
        if process.bad_records:
            raise SystemExit(
                f"{process.file}: {process.bad_records} records cannot be read: {process.bad_lines[:3]}"
            )
    return out


def run_model(name: str, mode: str) -> dict[str, Any]:
    """In the child: run one model under the Recorder. torch writes its own log to TORCH_TRACE at the same time."""
    import torch  # noqa: PLC0415 - after TORCH_TRACE is set
    import transformers  # noqa: PLC0415

    from fuselight.capture.dynamo import Recorder, capture_only, failure_of  # noqa: PLC0415
    from fuselight.shared.codec import encode  # noqa: PLC0415
    from fuselight.shared.report import TargetRef  # noqa: PLC0415
    from tests.support.recording import report_of_parts  # noqa: PLC0415

    torch.manual_seed(0)
    config_name, model_name, sizes, kind = MODELS[name]
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes))
    train = mode == "train"
    model.train(train)
    error, failures = None, []
    with Recorder(roots=(str(ROOT),)) as recorder, capture_only():
        compiled: Any = torch.compile(model, fullgraph=mode == "fullgraph")
        try:
            with torch.enable_grad() if train else torch.no_grad():
                for index, rows in enumerate((2, 3)):
                    with recorder.call(index):
                        output = compiled(**_inputs(kind, rows))
                        if train:
                            _loss(output).backward()
        except Exception as raised:  # noqa: BLE001 - a model that fails still has records to compare
            error = f"{type(raised).__name__}: {str(raised).splitlines()[0]}"
            failures.append(failure_of(raised, roots=(str(ROOT),)))
    parts = recorder.parts()
    report = report_of_parts(
        parts,
        TargetRef(__file__, name, 1, "module"),
        failures=(*parts.failures, *failures),
        texts={},
        roots=(str(ROOT),),
    )
    return {"error": error, "report": encode(report)}


def _inputs(kind: str, rows: int) -> dict[str, Any]:
    import torch  # noqa: PLC0415 - after TORCH_TRACE is set

    ids = torch.randint(3, 100, (rows, 8))
    if kind == "image":
        return {"pixel_values": torch.randn(rows, 3, 32, 32)}
    if kind == "speech":
        return {"input_values": torch.randn(rows, 4000)}
    return {"input_ids": ids, "decoder_input_ids": ids} if kind == "pair" else {"input_ids": ids}


def _loss(output: Any) -> Any:
    return next(value for value in output.values() if getattr(value, "requires_grad", False)).float().mean()


def break_keys(report: Any) -> set[Key]:
    """What the Report says."""
    return {
        (graph_break.stack[-1].path, graph_break.stack[-1].line, graph_break.ids[0])
        for graph_break in report.breaks
    }


def refusal_keys(report: Any) -> set[Key]:
    """The frames that the Report says Dynamo began with and did not compile, each as the code object that it is."""
    from fuselight.capture.dynamo.stacks import user_function  # noqa: PLC0415 - torch, where it is needed
    from fuselight.shared.report import NotCompiledKind, Outcome  # noqa: PLC0415

    # torch measures a compile from its begin on, and turns a generator away before
    never_begun = (NotCompiledKind.NO_TENSORS, NotCompiledKind.DISABLED, NotCompiledKind.GENERATOR)
    ended = report.compiles[-1:] if report.failures else ()
    failed = [record for record in report.compiles if record.outcome is Outcome.FAILED]
    frames = [report.frames[value.frame] for value in (*failed, *ended)]
    reported = [value for value in report.not_compiled if value.kind not in never_begun]
    keys: set[Key] = set()
    for frame in (*frames, *reported):
        if frame.wrapper is None:
            keys.add((frame.location.path, 0, user_function(frame.function.rpartition(".")[2])))
        else:  # torch records the wrapper, the Report names what it wraps
            keys.add((frame.wrapper.path, 0, frame.wrapper.function))
    return keys


def error_keys(report: Any) -> set[Key]:
    """The errors of Dynamo in the Report: those that ended a call, and those after which a frame ran in eager mode."""
    left = [value for value in report.not_compiled if value.gb_id is not None]
    return {
        (failure.stack[-1].path, failure.stack[-1].line, failure.gb_id)
        for failure in (*report.failures, *left)
        if failure.stack
    }


def finding_keys(report: Any) -> set[Key] | None:
    """What the findings say, None where the server cannot be imported."""
    try:
        from fuselight_server.explain.findings import findings  # noqa: PLC0415 - not everywhere installed
    except ImportError:
        return None
    reported = [finding for finding in findings(report) if finding.code.startswith("GB")]
    places = {
        (graph_break.stack[-1].path, graph_break.stack[-1].line, graph_break.ids[0]): graph_break
        for graph_break in report.breaks
    }
    return set(_matched(reported, places))


def _matched(reported: Iterable[Any], places: dict[Key, Any]) -> Iterator[Key]:
    """Each finding must be on a recorded line: with its primary span, or with a related one."""
    for finding in reported:
        spans = [finding.span, *(related.span for related in finding.related)]
        shown = {(span.path, span.line) for span in spans}
        matching = [key for key in places if key[:2] in shown and key[2] == finding.code]
        if matching:
            yield from matching
        else:
            yield (finding.span.path, finding.span.line, finding.code)


def measure(cases: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The scores of each (model, mode), in order; a level is None where the server is missing.

    Each runs in a fork of its own, of one process that has imported the libraries.
    """
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, _TRACE)
        trace.mkdir()
        named = [f"{name}:{mode}" for name, mode in cases]
        command = [sys.executable, __file__, "--children", folder, *named]
        done = subprocess.run(
            command,
            env={**os.environ, "TORCH_TRACE": str(trace), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{cases}: a run itself failed\n{done.stdout}{done.stderr[-4000:]}")
        return [_scores(Path(folder, str(index))) for index in range(len(cases))]


_TRACE = "trace"
_ANSWER = "answer.json"


def run_children(folder: Path, cases: Iterable[tuple[str, str]]) -> int:
    """In the child: run each case in a fork, and put its answer and torch's log into a folder of its number."""
    import torch._dynamo.backends.debugging  # noqa: F401, PLC0415 - after TORCH_TRACE is set
    import transformers.modeling_utils  # noqa: F401, PLC0415 - what the models share

    import fuselight.capture.dynamo  # noqa: F401, PLC0415
    import tests.support.recording  # noqa: F401, PLC0415

    trace = folder / _TRACE
    for index, (name, mode) in enumerate(cases):
        own = folder / str(index)
        own.mkdir()
        run = multiprocessing.get_context("fork").Process(target=_answer, args=(own / _ANSWER, name, mode))
        run.start()
        run.join()
        logs = list(trace.glob("*.log"))  # torch opens one when a process first has something to write
        if run.exitcode or not logs:
            print(f"{name} {mode}: {'exit code ' + str(run.exitcode) if run.exitcode else 'no log of torch'}")
            return 1
        for log in logs:
            log.rename(own / log.name)
    return 0


def _answer(path: Path, name: str, mode: str) -> None:
    path.write_text(json.dumps(run_model(name, mode)), encoding="utf-8")


def _scores(folder: Path) -> dict[str, Any]:
    from fuselight.shared.codec import decode  # noqa: PLC0415 - the path is set above
    from fuselight.shared.report import Report  # noqa: PLC0415

    got = json.loads((folder / _ANSWER).read_text(encoding="utf-8"))
    report = decode(Report, got["report"])
    universe = recorded(folder)
    keys = finding_keys(report)
    return {
        "error": got["error"],
        "problems": len(report.problems),
        "compiles": len(report.compiles),
        "breaks": compare(universe["breaks"], break_keys(report)),
        "findings": None if keys is None else compare(universe["breaks"], keys),
        "refusals": compare(universe["refusals"], refusal_keys(report)),
        "errors": compare(universe["errors"], error_keys(report)),
    }


def measured(names: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each model in each mode, two models at a time, with a line printed for each."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [(name, pool.submit(measure, [(name, mode) for mode in MODES])) for name in names]
        for name, job in jobs:
            for mode, row in zip(MODES, job.result(), strict=True):
                _print_row(name, mode, row)
                yield name, mode, row


@dataclass
class Total:
    """The sums of one level."""

    recorded: int = 0
    missing: int = 0
    reported: int = 0
    surplus: int = 0

    def add(self, score: Score) -> None:
        """Take in one run."""
        self.recorded += score.recorded
        self.missing += len(score.missing)
        self.reported += score.reported
        self.surplus += len(score.surplus)

    @property
    def recall(self) -> float:
        """Share of torch's records that are reported."""
        return 1 - self.missing / self.recorded if self.recorded else 1.0

    @property
    def precision(self) -> float:
        """Share of the reported facts that torch recorded."""
        return 1 - self.surplus / self.reported if self.reported else 1.0


def totals(names: Sequence[str]) -> dict[str, Total]:
    """Run the models and add their scores up, level by level."""
    sums = {level: Total() for level in LEVELS}
    print(
        f"{'model':<12} {'mode':<9} {'compiles':>8} {'records':>7}"
        + "".join(f"{level:>12}" for level in LEVELS)
    )
    for _, _, row in measured(names):
        for level, total in sums.items():
            if row[level] is not None:
                total.add(row[level])
    return sums


def rows() -> Iterator[Row]:
    """The promises: every graph break that torch recorded has its finding, and no finding is without a record."""
    for level, total in totals(tuple(MODELS)).items():
        detail = f"{total.recorded} recorded, {total.reported} reported, {len(MODELS)} architectures"
        yield Row(f"{level}: recall", total.recall, 1.0, "", at_least=True, detail=detail)
        yield Row(f"{level}: precision", total.precision, 1.0, "", at_least=True, detail=detail)


def main() -> int:
    """Run, print the table, and answer with the exit code."""
    parser = argparse.ArgumentParser(description="Compare Fuselight's graph breaks with torch's own record.")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--children", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.children:
        cases = [case.partition(":") for case in options.cases]
        return run_children(options.children, [(name, mode) for name, _, mode in cases])
    sums = totals(options.models.split(","))
    for level, total in sums.items():
        print(
            f"{level}: recall {total.recall:.2f} ({total.recorded - total.missing} of {total.recorded}), "
            f"precision {total.precision:.2f} ({total.reported - total.surplus} of {total.reported})"
        )
    return 1 if any(total.missing or total.surplus for total in sums.values()) else 0


def _print_row(name: str, mode: str, row: dict[str, Any]) -> None:
    scores = "".join(
        f"{'-' if row[level] is None else f'{row[level].recall:.2f}/{row[level].precision:.2f}':>12}"
        for level in LEVELS
    )
    error = (row["error"] or "")[:60]
    print(
        f"{name:<12} {mode:<9} {row['compiles']:>8} {row['breaks'].recorded:>7}{scores}  {error}", flush=True
    )
    for level in LEVELS:
        if row[level] is not None:
            for word in ("missing", "surplus"):
                for key in getattr(row[level], word)[:5]:
                    print(f"    {level} {word}: {key}", flush=True)
    if row["problems"]:
        print(f"    {row['problems']} problems in the report")


if __name__ == "__main__":
    sys.exit(main())
