"""How much compiles of one model with the same options differ in speed, and by which kernels.

    PYTHONPATH=compiler:. python -m benchmarks.studies.compile_spread MODEL --configuration NAME [--configuration ...]
        [--times 3] [--at-once 1] [--ahead] [--seconds 360] [--caches FOLDER] --out FILE
    PYTHONPATH=compiler:. python -m benchmarks.studies.compile_spread --table FILE

Each compile is a process with empty caches; `--at-once` of them compile side by side, and are then timed one after the
other. With `--ahead` Inductor times kernels as a search does, with the host ahead of the GPU. FILE gets one line of
JSON for each compile: microseconds of a call (the lower quartile of its rounds), seconds of its first call and of the
whole process until then, and each kernel with its launch configuration. The table says for each compile by how much its
kernels are slower than the fastest that another compile made of the same source. A compile that is not ready after
`--seconds` has a line with the seconds that its process had by then. `--caches` keeps the caches of one compile where
benchmarks.studies.replay looks for those of torch's autotuning modes. Invariant: a process times nothing before the others of
its group have compiled.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies.replay import DEFAULT, ROOT, end_tree, kept_folder, python_path
from benchmarks.studies.replayed_program import ModelProgram, model_program
from benchmarks.studies.tuned_models import source
from fuselight.adapters.torch_api.choices.kernel_choices import (
    ALGORITHMS,
    PADDING,
    TRITON,
    ChoiceRecorder,
)
from fuselight.adapters.torch_api.choices.launch_configurations import kernel_key
from fuselight.adapters.torch_api.choices.timing_ahead import timing_ahead
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.configurations import MODES, ConfigurationError, parse_configuration
from fuselight.shared.report import TunedResult, Work
from fuselight.shared.report.tuned import Numerics
from tests.support.counted_timings import counting_timings

_READY = "ready"
LATE = "late"
"""Instead of the times of a compile that was not ready in time: the seconds that its process had."""
_ROUNDS, _CALLS, _PROFILED = 24, 20, 5
_TIMING_SECONDS = 60.0
"""For the times and the profile of a compile that was ready in time."""
_GRAPH = "async_compile.triton("
"""In the source of a graph, which has those of its kernels."""
_DEFINED = re.compile(r"^def (triton_\w+)\(", re.MULTILINE)
_WORKS = {"step": Work.TRAINING_STEP, "training": Work.FORWARD_BACKWARD}
"""By the end of a model's name; the others are inference."""
_CONFIGURATION = ("XBLOCK", "YBLOCK", "R0_BLOCK", "num_warps", "num_stages")


def main() -> int:
    """Compile, time and print; the exit code is 0 if each compile was timed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?", help="a model of benchmarks.studies.tuned_models")
    parser.add_argument("--configuration", action="append", default=[])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--ahead", action="store_true", help="time kernels as a search does")
    parser.add_argument("--seconds", type=float, default=360.0, help="no compile goes on after that")
    parser.add_argument("--out", type=Path, default=Path("compile_spread.jsonl"))
    parser.add_argument("--caches", type=Path, help="keep the caches of the one compile in this folder")
    parser.add_argument("--tiny", action="store_true", help="a small one of the model, for a CPU")
    parser.add_argument("--table", type=Path, help="print the table of a file, and compile nothing")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--since", type=float, default=0.0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.table is not None:
        print(table(_rows_of(asked.table)))
        return 0
    if asked.one:
        _serve(asked.model, asked.one, asked.since, ahead=asked.ahead, tiny=asked.tiny)
        return 0
    if not asked.model:
        parser.error("name a model")
    try:
        refused = [name for name in asked.configuration if not _can_compile(name)]
    except ConfigurationError as error:
        parser.error(str(error))
    if refused:
        parser.error(
            f"{refused[0]} is neither one of torch's modes nor default with options, attention or precision"
        )
    if asked.caches is not None and (asked.times > 1 or len(asked.configuration) > 1):
        parser.error("--caches keeps those of one compile: name one configuration with --times 1")
    until = time.monotonic() + asked.seconds
    flags = [f"--{name}" for name in ("ahead", "tiny") if getattr(asked, name)]
    names = (asked.configuration or [DEFAULT]) * asked.times
    groups = [names[place : place + asked.at_once] for place in range(0, len(names), asked.at_once)]
    number = 0
    for group in groups:
        if time.monotonic() > until:
            break
        for entries in _compiled(asked.model, group, until, flags, asked.caches):
            row = {"model": asked.model, "ahead": asked.ahead, "at_once": len(group), **entries}
            number += LATE not in row
            print(f"{row['configuration']}: {_row_text(row)}", flush=True)
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print(table(_rows_of(asked.out)) if number else "nothing was compiled")
    return int(number < len(names))


def _row_text(row: Mapping[str, Any]) -> str:
    if LATE in row:
        return f"not ready after {row[LATE]:.1f} s of its process"
    return f"{row['us']:.1f} us, first call {row['first']:.1f} s"


def _compiled(
    model: str, group: Sequence[str], until: float, flags: Sequence[str], kept: Path | None
) -> Iterator[dict[str, Any]]:
    """The rows of compiles that run side by side; none of one that fails, which is said."""
    with contextlib.ExitStack() as stack:
        started = []
        for name in group:
            caches = stack.enter_context(_caches(model, name, kept))
            folders = {
                "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
                "TRITON_CACHE_DIR": f"{caches}/triton",
            }
            since = time.monotonic()
            command = [sys.executable, "-m", "benchmarks.studies.compile_spread", model, "--one", name]
            process = subprocess.Popen(
                [*command, "--since", str(since), *flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, **folders, "PYTHONPATH": python_path()},
            )
            stack.callback(end_tree, process)
            started.append((name, process, since))
        late = {
            process.pid: time.monotonic() - since
            for _, process, since in started
            if not _is_ready(process, until)
        }
        for name, process, _ in started:
            if process.pid in late:
                continue
            answer = _told(process)
            if answer is None:
                why = f"failed, or was not timed within {_TIMING_SECONDS:.0f} s"
                print(f"{model} {name}: {why}", file=sys.stderr, flush=True)
            else:
                yield {"configuration": name, **answer}
        for name, process, _ in started:  # last: the name of the GPU starts CUDA in this process
            if process.pid in late:
                about = {"device": _device(), "torch": torch.__version__}
                yield {"configuration": name, **about, LATE: late[process.pid]}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def _caches(model: str, name: str, kept: Path | None) -> Iterator[Path]:
    """An empty folder for caches, removed after the block unless it is to be kept."""
    if kept is None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    folder = kept_folder(kept.resolve(), model, name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder


def _is_ready(process: subprocess.Popen[str], until: float) -> bool:
    """Wait until a process has compiled or ended; end it, and return False, if it is late."""
    left = max(0.0, until - time.monotonic())
    if process.stdout is None or not select.select([process.stdout], [], [], left)[0]:
        end_tree(process)
        process.wait()
        return False
    process.stdout.readline()  # `ready`: what a model prints goes elsewhere
    return True


def _told(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """Have a process time itself; returns its answer."""
    try:
        message, _ = process.communicate("\n", timeout=_TIMING_SECONDS)
        return dict(json.loads(message.splitlines()[-1])) if process.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        end_tree(process)  # the next one is timed alone
        process.wait()
        return None


def _serve(model: str, name: str, since: float, *, ahead: bool, tiny: bool) -> None:
    """Compile a model, say so, and time it once that is asked. `since`: when the process was started."""
    stream = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        work = _WORKS.get(model.rpartition("_")[2], Work.INFERENCE)
        on_gpu = torch.cuda.is_available()
        result = TunedResult(f"{model}.py", "call", work, Numerics.EXACT, "", "gpu" if on_gpu else "")
        sources = Path(folder) / "sources"
        sources.mkdir()
        (sources / f"{model}.py").write_text(source(model, tiny=tiny), encoding="utf-8")
        program = model_program(Path(folder), model, result)
        program.compile(_arguments(name))
        choices = ChoiceRecorder()
        with (
            timing_ahead() if ahead else contextlib.nullcontext(),
            counting_timings() as timed,
            choices.recording(),
            choices.watching_launches(),
        ):
            began = time.monotonic()
            program.call()
            program.wait()
            first = time.monotonic() - began
            seconds = time.monotonic() - since
            for _ in range(2):  # the second call of a CUDA graph records it
                program.call()
            program.wait()
        print(_READY, file=stream, flush=True)
        sys.stdin.readline()
        us = sorted(program.round_us(_CALLS if on_gpu else 1) for _ in range(_ROUNDS))
        answer = {
            "device": _device(), "torch": torch.__version__,
            "first": first, "seconds": seconds, "timed": len(timed), "us": us[len(us) // 4],
            "padding": choices.by_family.get(PADDING, {}), "algorithms": choices.by_family.get(ALGORITHMS, {}),
            "kernels": _kernels(program, choices.by_family.get(TRITON, {})) if on_gpu else {},
        }  # fmt: skip
    print(json.dumps(answer), flush=True)


def _can_compile(name: str) -> bool:
    """Whether a configuration is no more than what `_arguments` has."""
    wanted = parse_configuration(name)
    others = wanted.eager, wanted.written, wanted.backend, wanted.blocks, wanted.optimizer, wanted.fixes
    return name in MODES or (wanted.mode == DEFAULT and not any(others) and not wanted.fullgraph)


def _arguments(name: str) -> dict[str, Any]:
    """The arguments of torch.compile."""
    if name in MODES:
        return {} if name == DEFAULT else {"mode": name}
    wanted = parse_configuration(name)
    backend = prepared_inductor(wanted.preparation, None, wanted.options, longest=wanted.longest)
    arguments: dict[str, Any] = {"backend": backend, "dynamic": wanted.dynamic}
    if wanted.fixed_modules:
        arguments["options"] = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    return arguments


def _kernels(program: ModelProgram, chosen: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Calls and microseconds of each kernel of a call, of generated ones also the key and launch configuration."""
    profiler: Any = importlib.import_module("torch.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_PROFILED):
            program.call()
        program.wait()
    folder: Any = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    known = generated(Path(folder.cache_dir()), chosen)
    kernels = {}
    for event in profile.key_averages():
        if us := event.self_device_time_total:
            row = {"calls": event.count / _PROFILED, "us": round(us / _PROFILED, 2)}
            kernels[event.key] = {**row, **known.get(event.key, {})}
    return kernels


def generated(folder: Path, chosen: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each kernel in a cache of Inductor's by its name: its key, and the launch configuration in `chosen`.

    A name that two kernels have, for example one of the forward and one of the backward, has neither: a profile knows
    names alone.
    """
    generated: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        names = _DEFINED.findall(text)
        if len(names) != 1 or _GRAPH in text:
            continue
        key = kernel_key(text)
        all_of_it = chosen.get(key, {})
        config = {name: all_of_it[name] for name in _CONFIGURATION if name in all_of_it}
        is_other = names[0] in generated and generated[names[0]].get("key") != key
        generated[names[0]] = {} if is_other else {"key": key, "config": config}
    return generated


def _rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of the compiles of each model on each device, the fastest first; without those that were late."""
    rows = [row for row in rows if LATE not in row]
    best: dict[tuple[str, ...], float] = {}
    for row in rows:
        for key, us, _ in _kernels_with_key(row).values():
            kernel = _kernel(row, key)
            best[kernel] = min(us, best.get(kernel, us))
    head = (
        "| model | device | configuration | head start | side by side | µs | first call, s | kernels timed "
        "| µs lost | by |"
    )
    lines = [head, "|" + "---|" * head.count(" |")]
    for row in sorted(rows, key=lambda row: (row["model"], row["device"], row["us"])):
        lost = {
            name: calls * (us - best[_kernel(row, key)])
            for name, (key, us, calls) in _kernels_with_key(row).items()
        }
        worst = sorted(lost, key=lambda name: -lost[name])[:2]
        by = ", ".join(f"`{name}` {lost[name]:.0f}" for name in worst if lost[name] >= 1)
        lines.append(
            f"| {row['model']} | {row['device']} | `{row['configuration']}` | {'yes' if row['ahead'] else 'no'} "
            f"| {row['at_once']} | {row['us']:,.1f} | {row['first']:.1f} | {row['timed']} "
            f"| {sum(lost.values()):.0f} | {by} |"
        )
    return "\n".join(lines)


def _kernel(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """What makes launches of a kernel comparable: the same source, for a model on a device."""
    return row["model"], row["device"], key


def _kernels_with_key(row: Mapping[str, Any]) -> dict[str, tuple[str, float, float]]:
    """Key, microseconds of one launch, and calls of each generated kernel of a compile."""
    return {
        name: (kernel["key"], kernel["us"] / kernel["calls"], kernel["calls"])
        for name, kernel in row["kernels"].items()
        if kernel.get("key") and kernel["calls"]
    }


if __name__ == "__main__":
    sys.exit(main())
