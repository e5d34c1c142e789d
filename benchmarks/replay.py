"""Replays tuned results in fresh processes, and compares them with torch.compile.

    PYTHONPATH=compiler python -m benchmarks.replay FOLDER [--models NAME,...] [--out FILE] [--minutes 9]

FOLDER is that of benchmarks.tune_models: fuselight-tuned.json and sources/. For each model processes start with empty
caches: torch.compile's default, torch.compile with the options of the result, the backend `fuselight`, and that backend
with the saved cache artifacts, if there are any. They compile side by side, together with those of `--at-once` other
models, so that their first calls have the same conditions; then they time steady calls in interleaved rounds. One line
of JSON a model has, of each, the seconds of the first call, how often Inductor timed a kernel, the lower quartile of
its rounds, and the backend's warnings. The exit code is 0 if each model was replayed without a warning and without
timing a kernel.
Invariant: a process knows nothing of the search but the tuned file.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import logging
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuselight import tuned_file
from fuselight.report import TunedResult, Work

ROOT = Path(__file__).resolve().parents[1]
_LIMIT = 300.0
"""Seconds of one process."""
_ROUND_SECONDS = 0.1
_ROUNDS = 12
_WARM = 8
_TOLERANCE = 0.05
"""Largest difference from eager mode, of the largest number: far above rounding, far below another result."""
_PROGRAMS_PART = "fuselight: the result of"
"""What the backend says that only the program can do, as this one does."""
_BEGAN = time.monotonic()
ROUND = "round"
DEFAULT, SAME, REPLAY, LOADED = "default", "same options", "replay", "replay with artifacts"


def main() -> int:
    """Replay every model; the exit code is 0 if each could be replayed without timing a kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="", help="names with commas; all of the folder if empty")
    parser.add_argument("--out", type=Path, help="also append the lines to this file")
    parser.add_argument("--minutes", type=float, help="start no model after so many minutes")
    parser.add_argument("--at-once", type=int, default=1, help="models whose processes compile side by side")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        print(json.dumps(_child(asked.child, asked.folder)))
        return 0
    wanted = asked.models.split(",") if asked.models else ()
    results = [one for one in _results(asked.folder) if not wanted or Path(one.file).stem in wanted]
    passed = True
    for start in range(0, len(results), asked.at_once):
        if asked.minutes is not None and time.monotonic() - _BEGAN > 60 * asked.minutes:
            break
        for row in _models(asked.folder.resolve(), results[start : start + asked.at_once]):
            text = json.dumps(row)
            print(text, flush=True)
            if asked.out is not None:
                with asked.out.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")
            replayed = row[REPLAY]
            passed = passed and replayed.get("timed") == 0 and not replayed.get("warnings")
    return 0 if passed else 1


def _results(folder: Path) -> tuple[TunedResult, ...]:
    file = tuned_file.read(folder / tuned_file.NAME)
    if file is None:
        raise SystemExit(f"there is no {tuned_file.NAME} in {folder}: run benchmarks.tune_models first")
    return file.results


def _models(folder: Path, results: Sequence[TunedResult]) -> Iterator[dict[str, Any]]:
    """The rows of models whose processes compile side by side."""
    with contextlib.ExitStack() as stack:
        started: list[tuple[TunedResult, dict[str, _Process]]] = []
        for result in results:
            kinds = (DEFAULT, SAME, REPLAY, *[LOADED] * bool(result.artifacts))
            made = {
                kind: stack.enter_context(_Process(f"{kind}:{Path(result.file).stem}", folder))
                for kind in kinds
            }
            started.append((result, made))
        for _, processes in started:
            for process in processes.values():
                process.hear()  # that it has made its first call
        for result, processes in started:
            for process in processes.values():
                process.tell("warm up")
                process.hear()
            for _ in range(_ROUNDS):
                for process in processes.values():
                    process.time()
            yield _row(result, {kind: process.answer() for kind, process in processes.items()})


def _row(result: TunedResult, said: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": Path(result.file).stem, "work": result.work.value, "configuration": result.configuration,
        "gain": result.gain, "tuned_us": result.us, "default_us": result.default_us, **said,
    }  # fmt: skip
    row["replayed_over_tuned"] = _ratio(row[REPLAY].get("us"), result.us)
    row["replayed_over_same_options"] = _ratio(row[REPLAY].get("us"), row[SAME].get("us"))
    row["replayed_gain"] = _ratio(row[DEFAULT].get("us"), row[REPLAY].get("us"))
    row["cold_start_over_same_options"] = _ratio(row[REPLAY].get("first"), row[SAME].get("first"))
    if LOADED in row:
        row["loaded_start_over_same_options"] = _ratio(row[LOADED].get("first"), row[SAME].get("first"))
    return row


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(one / other, 3) if one and other else None


class _Process(contextlib.AbstractContextManager["_Process"]):
    """One process with empty caches: it says when it has made its first call, and then times on demand."""

    def __init__(self, what: str, folder: Path) -> None:
        self._until = time.monotonic() + _LIMIT
        self._caches = tempfile.TemporaryDirectory()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - until it has ended
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{self._caches.name}/inductor",
            "TRITON_CACHE_DIR": f"{self._caches.name}/triton",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT), str(ROOT / "compiler"), os.environ.get("PYTHONPATH", "")]
            ),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.replay", str(folder), "--child", what],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
        )
        self._rounds: list[float] = []

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._caches.cleanup()

    def hear(self) -> str:
        """The next line that the process prints; empty if it has ended, or has taken too long."""
        stream = self._process.stdout
        if stream is None or not select.select([stream], [], [], max(0.0, self._until - time.monotonic()))[0]:
            return ""
        return stream.readline().strip()

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

    def answer(self) -> dict[str, Any]:
        """What it has measured, or why it could not."""
        self.tell("end")
        said = self.hear()
        try:
            found: dict[str, Any] = json.loads(said)
        except ValueError:
            self._errors.seek(0)
            errors = self._errors.read().strip().splitlines()
            return {"failure": errors[-1] if errors else f"it took longer than {_LIMIT:.0f} s"}
        rounds = sorted(self._rounds)
        return {**found, "us": round(rounds[(len(rounds) - 1) // 4], 2)} if rounds else found


@dataclass
class _Program:
    """The user's program of one model, compiled or not."""

    module: Any
    result: TunedResult
    args: Any
    named: Any
    device: Any
    function: Callable[..., Any]
    optimizer: Any = None

    def call(self) -> Any:
        """Make one call with its work."""
        import torch  # noqa: PLC0415 - the coordinator needs none

        from fuselight.target.tensors import tensors_in  # noqa: PLC0415 - imports torch

        if self.result.work is Work.INFERENCE:
            with torch.no_grad():
                return self.function(*self.args, **self.named)
        for parameter in self.module.model.parameters():
            parameter.grad = None
        found = self.function(*self.args, **self.named)
        losses = [one.sum() for one in tensors_in(found) if one.requires_grad]
        torch.autograd.backward(losses)
        if self.optimizer is not None:
            self.optimizer.step()
        return found

    def wait(self) -> None:
        """Wait for the device."""
        import torch  # noqa: PLC0415 - as above

        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, calls: int) -> float:
        """Seconds of one of several calls."""
        self.wait()
        began = time.perf_counter()
        for _ in range(calls):
            self.call()
        self.wait()
        return (time.perf_counter() - began) / calls

    def compile(self, arguments: dict[str, Any]) -> None:
        """Compile what the result compiles."""
        import torch  # noqa: PLC0415 - as above

        if self.result.blocks:
            for name in self.result.blocks:
                self.module.model.get_submodule(name).compile(**arguments)
        else:
            self.function = torch.compile(self.module.call, **arguments)
        if self.result.optimizer and self.optimizer is not None:
            self.optimizer.step = torch.compile(self.optimizer.step)


def _program(folder: Path, name: str, result: TunedResult) -> _Program:
    """Import the source of a model, and put it on the device of the result."""
    import torch  # noqa: PLC0415 - the coordinator needs none

    from fuselight.target.tensors import with_tensors  # noqa: PLC0415 - imports torch

    path = folder / "sources" / f"{name}.py"
    if not path.exists():  # the search wrote its sources elsewhere
        from benchmarks.tuned_models import source  # noqa: PLC0415 - imports torch

        path.parent.mkdir(exist_ok=True)
        path.write_text(source(name), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"there is no source of {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    device = torch.device("cuda" if result.capability else "cpu")
    module.model.to(device)
    args, named = with_tensors(module.example_inputs(), lambda tensor: tensor.to(device))
    made = _Program(module, result, args, named, device, module.call)
    if result.work is Work.TRAINING_STEP:
        made.optimizer = torch.optim.SGD(module.model.parameters(), lr=0.0)
    return made


def _child(what: str, folder: Path) -> dict[str, Any]:
    """Compile and call one model in this process."""
    import torch  # noqa: PLC0415 - the coordinator needs none

    from fuselight.runtime.backend import replay  # noqa: PLC0415 - imports torch
    from fuselight.runtime.preparation import prepared_inductor  # noqa: PLC0415 - imports torch
    from fuselight.torch_api.kernel_choices import counting_timings  # noqa: PLC0415 - imports torch

    kind, _, name = what.partition(":")
    result = next(one for one in _results(folder) if Path(one.file).stem == name)
    if kind == DEFAULT:
        result = replace(result, blocks=(), optimizer=False, dynamic=None, fixed_modules=False)
    warnings: list[str] = []
    handler = logging.Handler()
    handler.addFilter(lambda record: not record.getMessage().startswith(_PROGRAMS_PART))
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fuselight").addHandler(handler)
    program = _program(folder, name, result)
    torch.manual_seed(0)
    expected = program.call()
    with tempfile.TemporaryDirectory() as scratch:
        arguments: dict[str, Any] = {"dynamic": result.dynamic}
        if kind == SAME:
            arguments["backend"] = prepared_inductor(result.preparation, None, result.options)
        elif kind != DEFAULT:
            arguments.update(backend=replay, options={"file": _file(folder, result, kind, scratch)})
        if result.fixed_modules:
            skip = torch.compiler.skip_guard_on_all_nn_modules_unsafe
            arguments["options"] = {**arguments.get("options", {}), "guard_filter_fn": skip}
        program.compile(arguments)
        torch.manual_seed(0)
        with counting_timings() as timed:
            program.wait()
            began = time.perf_counter()
            found = program.call()
            program.wait()
            first = time.perf_counter() - began
            is_close = _is_close(
                found, expected
            )  # now: the next replay of a CUDA graph overwrites the results
            del found
    print("first call made", flush=True)
    sys.stdin.readline()  # until nothing else runs
    for _ in range(_WARM):
        program.call()
    calls = max(1, int(_ROUND_SECONDS / max(program.seconds(1), 1e-5)))
    print("ready", flush=True)
    while sys.stdin.readline().strip() == ROUND:
        print(program.seconds(calls) * 1e6, flush=True)
    return {"first": round(first, 3), "timed": len(timed), "warnings": warnings, "close": is_close}


def _file(folder: Path, result: TunedResult, kind: str, scratch: str) -> str:
    """A tuned file with this result alone; without its artifacts unless they are to be loaded."""
    if kind == LOADED:
        return str(folder / tuned_file.NAME)
    path = Path(scratch) / tuned_file.NAME
    tuned_file.keep(path, [replace(result, artifacts="")])
    return str(path)


def _is_close(found: Any, expected: Any) -> bool:
    """Whether results are those of eager mode but for rounding."""
    from fuselight.target.tensors import tensors_in  # noqa: PLC0415 - imports torch

    pairs = zip(tensors_in(found), tensors_in(expected), strict=True)
    return all(
        float((one.detach().float() - other.detach().float()).abs().max())
        <= _TOLERANCE * max(1.0, float(other.detach().float().abs().max()))
        for one, other in pairs
        if other.numel()
    )


if __name__ == "__main__":
    sys.exit(main())
