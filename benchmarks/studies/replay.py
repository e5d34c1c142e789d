"""Replays tuned results in fresh processes, and compares them with torch.compile.

    PYTHONPATH=compiler python -m benchmarks.studies.replay FOLDER [--models NAME,...] [--modes] [--processes 3] [--out FILE]
        [--minutes 9] [--pin]

FOLDER is that of benchmarks.studies.tune_models: fuselight-tuned.json and sources/. For each model processes start with empty
caches: torch.compile's default, torch.compile with the options of the result, the backend `fuselight`, and that backend
with the saved cache artifacts, if there are any; with `--modes` also torch's other modes, and with `--more` the options
of the result with others: `--more "coordinate_descent_tuning=True;max_autotune_gemm=True+longest=8"`. They compile side
by side, together with those of `--at-once` other models. Once all of a model's processes have made their first call,
those of other models are paused, and its steady calls are timed in interleaved rounds. Where the host limits a model,
two processes of the same program differ: `--processes` starts more of each program whose kernels CUDA graphs launch,
with the caches of the first, and the time of a program is the median of its processes. `--pin` pins the threads of
each to the same cores: these times vary less, and are not those of a search, which pins nothing. `--caches` is a folder
that keeps the caches of the autotuning modes, whose compiles may take longer than one run lets them: the next run goes
on there, and the seconds of their first call are those of all runs. One line of JSON a model has, of each program, the
seconds of the first call and of its phases, how often Inductor timed a kernel, the lower quartile of the rounds, and
the backend's warnings. The exit code is 0 if each process replayed its model without a warning and timed no kernel.
Invariant: a process knows nothing of the search but the tuned file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuselight.shared import tuned_file
from fuselight.shared.configurations import AUTOTUNING_MODES, MODES
from fuselight.shared.report import TunedResult
from fuselight.tune.turns import Turns, shared_folder
from fuselight.worker.processes import process

ROOT = Path(__file__).resolve().parents[2]
DEFAULT, SAME, REPLAY, LOADED = "default", "same options", "replay", "replay with artifacts"
ADDED = "+"
"""Begins the name of a program that adds options to those of the result."""
ROUND = "round"
"""The order to time one round."""
LATER_FAILURES = "later_failures"
"""Why processes that start with the caches of the first one gave no answer."""
MACHINES = "machines"
"""Instead of a folder: print what results have of this machine, of its CPU and its GPU."""
PIN = "FUSELIGHT_REPLAY_PIN"
"""Environment variable of a program whose threads are pinned."""
_FIRST, _SECOND = AUTOTUNING_MODES
"""The second starts after the first call of the first, with its caches."""
_REPEATED = frozenset({SAME, REPLAY, "reduce-overhead", _FIRST})
"""Programs whose kernels CUDA graphs launch. The host limits the others, and they are the fastest of no model."""
_ROUNDS = 12
_TICK = 0.05
_ANSWER_SECONDS = 60.0
"""For each answer after the first call."""


def main() -> int:
    """Replay every model; the exit code is 0 if each could be replayed without timing a kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="", help="names with commas; all of the folder if empty")
    parser.add_argument(
        "--out", type=Path, help="also append the lines to this file; its models are not replayed again"
    )
    parser.add_argument(
        "--minutes", type=float, help="compile no longer than that in all: time what is ready then, and end"
    )
    parser.add_argument("--at-once", type=int, default=1, help="models whose processes compile side by side")
    parser.add_argument(
        "--modes",
        nargs="?",
        const=",".join(MODES),
        default="",
        help="also measure torch's other modes: all, or these",
    )
    parser.add_argument(
        "--more",
        default="",
        help="also measure the options of the result with these: OPTION=VALUE+...;...",
    )
    parser.add_argument("--caches", type=Path, help="keep the caches of torch's autotuning modes here")
    parser.add_argument("--processes", type=int, default=1, help="processes of each program to time")
    parser.add_argument(
        "--pin", action="store_true", help="pin the threads of each program to the same cores"
    )
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds until the first call of a process"
    )
    asked = parser.parse_args()
    asked.modes = frozenset(filter(None, asked.modes.split(",")))
    if unknown := asked.modes.difference(MODES):
        parser.error(f"torch has no mode {', '.join(sorted(unknown))}: {', '.join(MODES)}")
    asked.more = tuple(filter(None, asked.more.split(";")))
    os.environ.update({PIN: "1"} if asked.pin else {})  # the programs inherit it
    known = _models_of(asked.out)
    wanted = asked.models.split(",") if asked.models else ()
    results = [
        tuned_result
        for tuned_result in results_of(asked.folder, _machines_here())
        if (not wanted or name_of(tuned_result) in wanted) and name_of(tuned_result) not in known
    ]
    results.sort(key=lambda tuned_result: wanted.index(name_of(tuned_result)) if wanted else 0)
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")
    passed = True
    for row in _rows(results, asked, until):
        text = json.dumps(row)
        print(text, flush=True)
        if asked.out is not None:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        replayed = row[REPLAY]
        passed = passed and replayed.get("timed") == 0 and not replayed.get("warnings")
        passed = passed and LATER_FAILURES not in replayed
    return 0 if passed else 1


def results_of(folder: Path, machines: Collection[Sequence[str]]) -> tuple[TunedResult, ...]:
    """The latest result of each model for one of these machines: a search may find one for other graphs than before.

    `machines`: device, compute capability, torch and Triton.
    """
    file = tuned_file.read(folder / tuned_file.NAME)
    if file is None:
        raise SystemExit(
            f"there is no {tuned_file.NAME} in {folder}: run benchmarks.studies.tune_models first"
        )
    known = {tuple(machine) for machine in machines}
    here = [
        tuned_result
        for tuned_result in file.results
        if (tuned_result.device, tuned_result.capability, tuned_result.torch, tuned_result.triton) in known
    ]
    if not here:
        names = "; ".join(", ".join(filter(None, machine)) for machine in machines)
        raise SystemExit(f"no result in {folder} is for this machine: {names}")
    latest = {
        name_of(tuned_result): tuned_result
        for tuned_result in sorted(here, key=lambda tuned_result: tuned_result.when)
    }
    return tuple(tuned_result for tuned_result in here if tuned_result in latest.values())


def _machines_here() -> list[list[str]]:
    """What results have of this machine, from another process: this one starts no GPU."""
    command = [sys.executable, "-m", "benchmarks.studies.replayed_program", MACHINES]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    asked = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return list(json.loads(asked.stdout.splitlines()[-1]))


def python_path() -> str:
    """PYTHONPATH of the processes that a benchmark starts."""
    return os.pathsep.join([str(ROOT), str(ROOT / "compiler"), os.environ.get("PYTHONPATH", "")])


def end_tree(started: subprocess.Popen[str]) -> None:
    """End a process and everything that it has started, if it is still there."""
    if started.poll() is None:
        for descendant in reversed(process.descendants(started.pid)):
            with contextlib.suppress(OSError):
                os.kill(descendant, 9)
        started.kill()


def kept_folder(caches: Path, model: str, mode: str) -> Path:
    """Where `--caches` keeps those of a model's program."""
    return caches / model / mode


def name_of(result: TunedResult) -> str:
    """The model of a result."""
    return Path(result.file).stem


def _models_of(path: Path | None) -> set[str]:
    """The models of an output file."""
    if path is None or not path.exists():
        return set()
    return {json.loads(line)["model"] for line in path.read_text(encoding="utf-8").splitlines()}


def _rows(
    results: Sequence[TunedResult], asked: argparse.Namespace, until: float
) -> Iterator[dict[str, Any]]:
    """The rows of the models, in the order in which their processes are ready."""
    waiting, compiling = list(results), list[_Model]()
    turns = Turns(shared_folder())
    with contextlib.ExitStack() as stack:
        stack.callback(turns.close)
        while waiting or compiling:
            if time.monotonic() > until:
                waiting.clear()
                for model in compiling:
                    model.give_up()
            while waiting and len(compiling) < asked.at_once:
                new_model = _Model(
                    waiting.pop(0),
                    asked.folder.resolve(),
                    asked.limit,
                    asked.processes,
                    asked.modes,
                    asked.caches.resolve() if asked.caches else None,
                    asked.more,
                )
                compiling.append(stack.enter_context(new_model))
            if turns.is_asked_to_wait():
                with _paused(compiling):
                    turns.make_way()
            ready = next((model for model in compiling if model.is_ready()), None)
            if ready is None:
                time.sleep(_TICK)
                continue
            compiling.remove(ready)
            with _paused(compiling), turns.timing():
                row = ready.timed()
            ready.end()
            yield row


@contextlib.contextmanager
def _paused(models: Sequence[_Model]) -> Iterator[None]:
    """Within the block, the processes of these models are stopped, and their time limits with them."""
    processes = [process for model in models for process in model.all_processes()]
    began = time.monotonic()
    for other_process in processes:
        other_process.pause()
    try:
        yield
    finally:
        for other_process in processes:
            other_process.resume(began)


@dataclass
class _Model(contextlib.AbstractContextManager["_Model"]):
    """The processes of one model."""

    result: TunedResult
    folder: Path
    limit: float
    count: int
    """Processes of each program that is repeated."""
    modes: frozenset[str]
    """Modes of torch to measure too."""
    kept: Path | None = None
    """The folder that keeps the caches of the autotuning modes."""
    more: tuple[str, ...] = ()
    """Options to add to those of the result, each a program."""
    processes: dict[str, list[_Process]] = field(default_factory=dict)
    """By program; the first one of each has compiled with empty caches."""
    _gave_up: bool = False

    def __post_init__(self) -> None:
        kinds = [DEFAULT, SAME, REPLAY, *[LOADED] * bool(self.result.artifacts)]
        later = {_SECOND} if _FIRST in self.modes else set[str]()
        kinds += [mode for mode in MODES if mode in self.modes - {DEFAULT} - later]
        for kind in (*kinds, *(f"{ADDED}{text}" for text in self.more)):
            self._start(kind)

    def __exit__(self, *_: object) -> None:
        self.end()

    def all_processes(self) -> list[_Process]:
        """Every process that was started."""
        return [process for started in self.processes.values() for process in started]

    def _start(self, kind: str, caches: str | None = None) -> None:
        name, kept = name_of(self.result), None
        if caches is None and self.kept is not None and kind in AUTOTUNING_MODES:
            kept = _KeptCaches(kept_folder(self.kept, name, kind))
        process = _Process(f"{kind}:{name}", self.folder, self.limit, caches, kept)
        self.processes.setdefault(kind, []).append(process)

    def is_ready(self) -> bool:
        """Whether every process has made its first call, or never will.

        Starts those that need others' caches: at once, because the first calls of others may take minutes.
        """
        for kind, started in list(self.processes.items()):
            first = started[0]
            if not first.has_called() or first.failure or self._gave_up:
                continue
            if kind == _FIRST and _SECOND in self.modes and _SECOND not in self.processes:
                self._start(_SECOND, first.caches)
            if kind in _REPEATED:
                for _ in range(len(started), self.count):
                    self._start(kind, first.caches)
        called = [process.has_called() for process in self.all_processes()]
        return all(called)

    def give_up(self) -> None:
        """End each process that has not made its first call, and start no other."""
        self._gave_up = True
        for other_process in self.all_processes():
            other_process.give_up()

    def timed(self) -> dict[str, Any]:
        """Time the steady calls of every process in interleaved rounds; returns the row."""
        for other_process in self.all_processes():
            other_process.tell("warm up")
            other_process.hear()
        for _ in range(_ROUNDS):
            for other_process in self.all_processes():
                other_process.time()
        answer = {kind: _answer(started) for kind, started in self.processes.items()}
        if _SECOND in self.modes:
            answer.setdefault(_SECOND, {"failure": f"not started, because {_FIRST} was not ready"})
        return _row(self.result, answer)

    def end(self) -> None:
        """End the processes."""
        for other_process in self.all_processes():
            other_process.end()


def _answer(processes: Sequence[_Process]) -> dict[str, Any]:
    """What the first process of a program says; the median time, timings, warnings and failures are those of all."""
    answer, *others = [process.answer() for process in processes]
    return answer_of_all(answer, others) if others else answer


def answer_of_all(entries: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer of a program: that of its first process, with what the others add. A failure of that one stands."""
    if "failure" in entries:
        return dict(entries)
    every = (entries, *others)
    answer = dict(entries)
    each = sorted(entry["us"] for entry in every if "us" in entry)
    if each:
        answer.update(us=round(statistics.median(each), 2), each_us=each)
    if "timed" in entries:
        answer["timed"] = max(entry.get("timed", 0) for entry in every)
        answer["warnings"] = list(
            dict.fromkeys(text for entry in every for text in entry.get("warnings", ()))
        )
        answer["close"] = all(entry.get("close", True) for entry in every)
    failures = [entry["failure"] for entry in others if "failure" in entry]
    if failures:
        answer[LATER_FAILURES] = failures
    return answer


def _row(result: TunedResult, answer: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": name_of(result), "work": result.work.value, "configuration": result.configuration,
        "gain": result.gain, "tuned_us": result.us, "default_us": result.default_us, **answer,
    }  # fmt: skip
    replayed = row[REPLAY].get("us")
    row["replayed_over_tuned"] = _ratio(replayed, result.us)
    row["replayed_over_same_options"] = _ratio(replayed, row[SAME].get("us"))
    row["replayed_gain"] = _ratio(row[DEFAULT].get("us"), replayed)
    row["cold_start_over_same_options"] = _ratio(row[REPLAY].get("first"), row[SAME].get("first"))
    if LOADED in row:
        row["loaded_start_over_same_options"] = _ratio(row[LOADED].get("first"), row[SAME].get("first"))
    return row


def _ratio(value: float | None, other: float | None) -> float | None:
    return round(value / other, 3) if value and other else None


class _KeptCaches:
    """Caches that outlast a run, and how long compiles have filled them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._record = folder / "seconds.txt"
        self.seconds = float(self._record.read_text()) if self._record.exists() else 0.0

    def add(self, seconds: float) -> None:
        """Take in the compile of a run."""
        self.seconds = round(self.seconds + seconds, 3)
        self._record.write_text(f"{self.seconds}\n")


class _Process:
    """One process with empty caches: it says when it has made its first call, and then times on demand."""

    def __init__(
        self, what: str, folder: Path, limit: float, caches: str | None, kept: _KeptCaches | None = None
    ) -> None:
        self.what = what
        self._limit = limit
        self._until = time.monotonic() + limit
        self._kept = kept
        caches = str(kept.folder) if kept is not None else caches
        self._temporary = None if caches else tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.caches = caches or (self._temporary.name if self._temporary else "")
        """Folder of its caches."""
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - until it has ended
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{self.caches}/inductor",
            "TRITON_CACHE_DIR": f"{self.caches}/triton",
            "PYTHONPATH": python_path(),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.studies.replayed_program", str(folder), what],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
        )
        self._rounds: list[float] = []
        self._stops: list[tuple[float, float]] = []
        """Seconds of the clock from which until which it was stopped."""
        self._has_called = False
        self.failure = ""
        """Why it never made its first call."""

    def has_called(self) -> bool:
        """Whether it has made its first call, or has ended; ends it if it takes longer than its limit."""
        if self._has_called:
            return True
        if self._can_be_heard(0):
            self._has_called = True
            self.hear()
        elif time.monotonic() > self._until:
            self.give_up()
        return self._has_called

    def give_up(self) -> None:
        """End it if it has not made its first call."""
        if self._has_called:
            return
        self._has_called = True
        seconds = self._limit - (self._until - time.monotonic())
        if self._kept is not None:
            self._kept.add(seconds)
        so_far = f" (in all runs {self._kept.seconds:.0f} s)" if self._kept is not None else ""
        self.failure = f"killed after {seconds:.0f} s{so_far}"
        end_tree(self._process)

    def pause(self) -> None:
        """Stop it and everything that it has started."""
        if self._process.poll() is None:
            process.pause_tree(self._process.pid)

    def resume(self, since: float) -> None:
        """Let it go on; the time `since` it was paused does not count."""
        now = time.monotonic()
        self._stops.append((since, now))
        self._until += now - since
        if self._process.poll() is None:
            process.resume_tree(self._process.pid)

    def end(self) -> None:
        """End it and everything that it has started."""
        end_tree(self._process)
        self._process.communicate()
        self._errors.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _can_be_heard(self, seconds: float) -> bool:
        stream = self._process.stdout
        return stream is not None and bool(select.select([stream], [], [], seconds)[0])

    def hear(self) -> str:
        """The next line that the process prints; empty if it has ended, or has taken too long."""
        if self._process.stdout is None or not self._can_be_heard(_ANSWER_SECONDS):
            return ""
        return self._process.stdout.readline().strip()

    def tell(self, order: str) -> None:
        """Let the process go on, if it is still there."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"{order}\n")
                self._process.stdin.flush()

    def time(self) -> None:
        """Time one round of calls."""
        self.tell(ROUND)
        with contextlib.suppress(ValueError):  # it has ended: its answer says why
            self._rounds.append(float(self.hear()))

    def _without_stops(self, began: float, ended: float) -> float:
        """Seconds between two times of the clock, without those in which the process was stopped."""
        stopped = (min(ended, until) - max(began, since) for since, until in self._stops)
        return ended - began - sum(value for value in stopped if value > 0)

    def answer(self) -> dict[str, Any]:
        """What it has measured, or why it could not."""
        self.tell("end")
        message = self.hear()
        try:
            data: dict[str, Any] = json.loads(message)
        except ValueError:
            self._errors.seek(0)
            errors = self._errors.read().strip().splitlines()
            return {"failure": self.failure or (errors[-1] if errors else "it gave no answer")}
        if "first" in data:
            data["first"] = round(self._without_stops(*data["first"]), 3)
            if self._kept is not None:
                self._kept.add(data["first"])
                data["first"] = self._kept.seconds
        rounds = sorted(self._rounds)
        return {**data, "us": round(rounds[(len(rounds) - 1) // 4], 2)} if rounds else data


if __name__ == "__main__":
    sys.exit(main())
