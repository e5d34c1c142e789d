"""Runs searches for the fastest configuration over models, and writes the table of what they found.

    PYTHONPATH=compiler python -m benchmarks.studies.tune_models [--models building|held_out|all|NAME,...] [--budget 60]
        [--modes] [--out FOLDER] [--minutes 9]

One line of JSON a model goes to FOLDER/models.jsonl as it ends; a model with a decision there is not searched again,
so that an interrupted run goes on where it was. FOLDER/fuselight-tuned.json has the results for a replay,
FOLDER/tuning.md the table; `--only-page` writes the table again, with the rows of benchmarks.studies.replay from `--replays
FILE`. Needs torch, Triton on a GPU, and the models' libraries; nothing of the server. With `--tiny --device cpu` it
shows on a machine without a GPU that it works.
Invariant: one search at a time; each of its processes has empty caches.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.studies import tuned_table
from fuselight.shared import tuned_file, wire
from fuselight.shared.codec import encode
from fuselight.shared.configurations import MODES
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.protocol import (
    Answer,
    Hello,
    InputsPlan,
    Limits,
    Message,
    Progress,
    Refused,
    Shutdown,
    Target,
    TuneRequest,
    from_json,
)
from fuselight.shared.report import Numerics, Report
from fuselight.shared.worker_launch import worker_command
from fuselight.shared.worker_protocol import message_bytes

ROOT = Path(__file__).resolve().parents[2]
_PROVIDER = "example_inputs"
_LINES, _RESULTS, _PAGE = "models.jsonl", "fuselight-tuned.json", "tuning.md"
_SPARE_SECONDS = 240.0
"""Seconds that a worker may take beyond the budget: torch's other modes, and the start."""
_PATHS = ("--out", "--sources", "--replays")
_LARGE = ("generated", "profile", "compile_steps")
_WITH_PATHS = ("stack", "traceback")
"""Of failures."""
_BEGAN = time.monotonic()


def main() -> int:
    """Search; the exit code is 0 if every model has a decision."""
    asked = _asked()
    asked.out.mkdir(parents=True, exist_ok=True)
    lines = asked.out / _LINES
    if not asked.only_page:
        with _Worker() as worker:
            for name in _open_models(asked):
                began = time.monotonic()
                row = _model(name, worker, asked)
                with lines.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                asked.longest = max(asked.longest, time.monotonic() - began)
                _say(f"{name}: {row.get('failure') or tuned_table.summary(tuned_table.read_row(row))}")
                _page(asked)
    print(_page(asked))
    decided = {row["model"] for row in _rows(lines) if "failure" not in row}
    return 0 if decided.issuperset(asked.models) else 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--models", default="all", help="building, held_out, all, main (all, mixed), or names"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each search")
    parser.add_argument("--seconds", type=float, default=1.0, help="timed calls of the confirming race")
    parser.add_argument("--numerics", type=Numerics, default=Numerics.EXACT)
    parser.add_argument(
        "--modes",
        nargs="?",
        const=",".join(MODES),
        default="",
        help="measure torch's other modes too: all, or these",
    )
    parser.add_argument("--fixed-modules", action="store_true", help="allow what assumes unchanging modules")
    parser.add_argument("--try", dest="candidates", type=lambda text: tuple(text.split(";")), default=())
    parser.add_argument("--only", action="store_true", help="try nothing but `default` and what --try names")
    parser.add_argument("--jobs", type=int, default=0, help="compiles side by side; 0: by cores and memory")
    parser.add_argument("--mode-limit", type=float, default=100.0, help="seconds for each configuration")
    parser.add_argument("--artifacts", action="store_true", help="save the winners' cache artifacts")
    parser.add_argument("--tiny", action="store_true", help="small models in float32, for a CPU")
    parser.add_argument("--minutes", type=float, help="start no search that may take longer than that in all")
    parser.add_argument("--out", type=Path, default=Path("artifacts/tuning"))
    parser.add_argument("--sources", type=Path, help="where the files of the targets go; OUT/sources")
    parser.add_argument("--only-page", action="store_true", help="search nothing")
    parser.add_argument("--replays", type=Path, help="output of benchmarks.studies.replay, for the table")
    asked = parser.parse_args()
    asked.models = list(_names(asked.models))
    asked.modes = tuple(name for name in asked.modes.split(",") if name)
    asked.out = asked.out.resolve()
    asked.sources = (asked.sources or asked.out / "sources").resolve()
    asked.longest = asked.budget
    return asked


def _names(text: str) -> Iterator[str]:
    from benchmarks.studies.tuned_models import BUILDING, HELD_OUT, MAIN, MODELS  # noqa: PLC0415 - imports torch

    groups = {"building": tuple(BUILDING), "held_out": tuple(HELD_OUT), "all": tuple(MODELS), "main": MAIN}
    for name in text.split(","):
        if name not in groups and name not in MODELS:
            raise SystemExit(f"there is no model {name!r}: {', '.join([*groups, *MODELS])}")
        yield from groups.get(name, [name])


def _open_models(asked: argparse.Namespace) -> Iterator[str]:
    """The models without a decision, while another one may end in time.

    It is expected to take as long as its budget, and as the longest so far.
    """
    known = {row["model"] for row in _rows(asked.out / _LINES) if "failure" not in row}
    for name in asked.models:
        ends = time.monotonic() - _BEGAN + asked.longest
        if name not in known and (asked.minutes is None or ends < 60 * asked.minutes):
            yield name


def _rows(lines: Path) -> list[dict[str, Any]]:
    """The last line of each model; a line that an interruption cut off is ignored."""
    entries: dict[str, dict[str, Any]] = {}
    for line in lines.read_text(encoding="utf-8").splitlines() if lines.exists() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            entries[row["model"]] = row
    return list(entries.values())


def _page(asked: argparse.Namespace) -> str:
    replayed = {row["model"]: row for row in _rows(asked.replays)} if asked.replays else {}
    lines = ({"replayed": replayed.get(row["model"], {}), **row} for row in _rows(asked.out / _LINES))
    rows = [tuned_table.read_row(row) for row in lines]
    text = tuned_table.page(rows, asked.models)
    (asked.out / _PAGE).write_text(text, encoding="utf-8")
    return text


def _model(name: str, worker: _Worker, asked: argparse.Namespace) -> dict[str, Any]:
    """Search for one model; stores its result for replay."""
    from benchmarks.studies.tuned_models import BUILDING, MODELS, source  # noqa: PLC0415 - imports torch

    model = MODELS[name]
    asked.sources.mkdir(parents=True, exist_ok=True)
    path = asked.sources / f"{name}.py"
    path.write_text(source(name, tiny=asked.tiny), encoding="utf-8")
    plan = TunePlan(
        work=model.work, device=asked.device, budget_seconds=asked.budget, numerics=asked.numerics,
        fixed_modules=asked.fixed_modules, candidates=asked.candidates, only=asked.only,
        modes=asked.modes, seconds=asked.seconds, limit_seconds=asked.mode_limit, jobs=asked.jobs,
        artifacts=str(asked.out) if asked.artifacts else "",
    )  # fmt: skip
    began = time.monotonic()
    row: dict[str, Any] = {
        "model": name,
        "half": "building" if name in BUILDING else "held out",
        "work": model.work.value,
        "rows": model.sizes(tiny=asked.tiny).rows,
        "made": _provenance(asked),
    }
    seconds = asked.budget + _SPARE_SECONDS + asked.mode_limit * len(plan.modes)
    report, why = worker.answer(_request(path, plan), time.monotonic() + seconds)
    row["seconds"] = round(time.monotonic() - began, 1)
    if report is None or report.tuned is None or report.tuned.result is None:
        failures = [failure.message for failure in report.failures] if report is not None else [why]
        row["failure"] = "; ".join(failures) or "the search came to no decision"
    if report is not None and report.tuned is not None:
        row["tuned"] = _without_kernels(encode(report.tuned))
        if report.tuned.result is not None:
            tuned_file.keep(asked.out / _RESULTS, [report.tuned.result])
    return row


def _without_kernels(tuned: dict[str, Any]) -> dict[str, Any]:
    """A search without the kernels of its candidates, which are megabytes, and without paths of this machine."""
    for candidate in tuned.get("candidates", ()):
        for name in _LARGE:
            candidate["configuration"].pop(name, None)
        for name in _WITH_PATHS:
            (candidate["configuration"].get("failure") or {}).pop(name, None)
    return tuned


def _request(path: Path, plan: TunePlan) -> TuneRequest:
    text = path.read_text(encoding="utf-8").splitlines()
    line = next(number for number, code in enumerate(text, 1) if code.startswith("def call("))
    return TuneRequest(
        id=1,
        generation=1,
        target=Target(str(path), "call", "function", line, compiled=False),
        inputs=InputsPlan(provider=_PROVIDER, provider_line=text.index(f"def {_PROVIDER}():") + 1),
        roots=(str(path.parent),),
        limits=Limits(seconds=0, memory_mb=0),
        plan=plan,
    )


class _Worker(contextlib.AbstractContextManager["_Worker"]):
    """A worker of this interpreter, started for the first request and again after one that it did not answer."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = wire.FrameReader()
        self._requests = 0

    def __exit__(self, *_: object) -> None:
        self._end()

    def answer(self, request: TuneRequest, until: float) -> tuple[Report | None, str]:
        """The report of a request, or why there is none; gives up after `until`."""
        self._requests += 1
        request = replace(request, id=self._requests, generation=self._requests)
        is_new = self._process is None
        process = self._process = self._process or _start()
        if not is_new:
            _send(process, request)
        for message in self._messages(process, until):
            if isinstance(message, Hello):
                if message.problem is not None:
                    self._end()
                    return None, message.problem.message
                _send(process, request)
            elif isinstance(message, Answer):
                return message.report, ""
            elif isinstance(message, Refused):
                return None, message.failure.message if message.failure is not None else message.reason
            elif isinstance(message, Progress) and _is_step(message):
                _say(f"  {message.detail}")
        self._end()
        return None, "the worker ended, or took too long"

    def _messages(self, process: subprocess.Popen[bytes], until: float) -> Iterator[Message]:
        stream = process.stdout
        if stream is None:
            return
        os.set_blocking(stream.fileno(), False)
        while time.monotonic() < until:
            data = stream.read(1 << 20)
            if data is None:
                time.sleep(0.02)
                continue
            if not data:
                return
            for payload in self._reader.feed(data):
                message = from_json(wire.load(payload))
                if message is not None:
                    yield message

    def _end(self) -> None:
        """End the worker and everything that it has started."""
        process, self._process, self._reader = self._process, None, wire.FrameReader()
        if process is None:
            return
        try:
            _send(process, Shutdown())
            process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()


def _start() -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "TOKENIZERS_PARALLELISM": "false",
    }
    return subprocess.Popen(
        worker_command(sys.executable),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT,
    )  # fmt: skip


def _send(process: subprocess.Popen[bytes], message: Message) -> None:
    if process.stdin is not None:
        process.stdin.write(message_bytes(message))
        process.stdin.flush()


def _is_step(progress: Progress) -> bool:
    """Whether it is a step of the search itself, not of one of its processes."""
    return progress.phase in {"measure", "measured"} and ": " not in progress.detail


def _provenance(asked: argparse.Namespace) -> dict[str, str]:
    """The machine, the versions and the command."""
    import torch  # noqa: PLC0415 - for its version alone

    on_gpu = asked.device.startswith("cuda") and torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name(torch.device(asked.device)) if on_gpu else "CPU",
        "cores": str(os.cpu_count()),
        "torch": str(torch.__version__),
        "python": sys.version.split()[0],
        "command": f"python -m benchmarks.studies.tune_models {shlex.join(_arguments())}".strip(),
    }


def _arguments() -> list[str]:
    """The arguments without paths of this machine."""
    given = sys.argv[1:]
    return [
        "FOLDER" if place and given[place - 1] in _PATHS else argument for place, argument in enumerate(given)
    ]


def _say(text: str) -> None:
    print(f"[{time.monotonic() - _BEGAN:6.1f}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
