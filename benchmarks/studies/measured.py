"""Holds the benchmark's numbers to independent readings, on a machine with a GPU.

    PYTHONPATH=compiler:server python -m benchmarks.studies.measured [--models bert,gpt2] [--seed] [--out FOLDER]

Each model is measured as `fuselight bench` measures it, by a worker of this interpreter, and then by processes that
know nothing of Fuselight (`measured_apart`): three, for what one process reads differs by percents from what the next
one reads. What was measured is kept in the folder, one file a model: a later call
with other models adds to it, and `--only-page` writes the page of what is there. The twelve models and the experiment
with the large ResNet-50 (`--seed`) take some twenty minutes together; where one command may not take so long, give it
some models at a time. Needs torch, with Triton on a GPU, and the models' libraries.

    ... -m benchmarks.studies.measured --device cpu --models tiny --seed --seed-model tiny --seconds 0.3

shows on a machine without a GPU that it works. Invariant: one thing is measured at a time. The benchmark begins with
empty caches, and the other process runs what it compiled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.studies import measured_table
from fuselight.shared.codec import decode, encode
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import (
    Answer,
    CaptureRequest,
    InputsPlan,
    Limits,
    MeasureRequest,
    Progress,
    Target,
)
from fuselight.shared.report import Measured
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.client import Worker

ROOT = Path(__file__).resolve().parents[2]
APART_SECONDS = 600
_IMPORTS, _SOON = 20.0, 2.0
"""Seconds that the host of the worker has to import what a run has needed, and to begin with it."""
SEED = ("eager", "default", "reduce-overhead", "max-autotune")
SEED_FILE = "seed"
_PROVIDER = "example_inputs"
_PATHS = ("--out", "--page")
_FOLDERS = ("_DIR", "_HOME")
"""How the names of variables end that say where something is kept: torch sets that of its cache when it is imported."""
_BEGAN = time.monotonic()


def main() -> int:
    """Measure what is asked for, and write the page of all that is in the folder."""
    asked = _asked()
    asked.out.mkdir(parents=True, exist_ok=True)
    models = [] if asked.only_page or asked.models == ["none"] else asked.models or _twelve()
    for model in models:
        _keep(asked.out / f"{model}.json", _model(model, asked))
    if asked.seed and not asked.only_page:
        measured = _measured(asked.seed_model, asked, SEED, limit=asked.seed_limit)
        kept = {"measured": measured, "model": asked.seed_model, "made": _provenance(asked)}
        _keep(asked.out / f"{SEED_FILE}.json", kept)
    text = _page(asked.out)
    asked.page.parent.mkdir(parents=True, exist_ok=True)
    asked.page.write_text(text, encoding="utf-8")
    print(text)
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--models", type=lambda text: text.split(","), help="all twelve, else these, with commas, or none"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--mode", default="default", help="the configuration that is held to the independent readings"
    )
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument(
        "--rows",
        type=int,
        default=0,
        help="times the rows of benchmarks.gpu.models; else as measured_models has it",
    )
    parser.add_argument("--apart", type=int, default=3, help="independent processes, one after the other")
    parser.add_argument("--seconds", type=float, default=2.0, help="timed calls of a configuration")
    parser.add_argument(
        "--seed", action="store_true", help="measure the large ResNet-50 in four configurations, too"
    )
    parser.add_argument("--seed-model", default="resnet50_large")
    parser.add_argument("--seed-limit", type=float, default=400.0, help="seconds for each of them")
    parser.add_argument("--out", type=Path, default=Path("artifacts/measured"))
    parser.add_argument("--page", type=Path, help="where the page goes; OUT/measured.md")
    parser.add_argument("--only-page", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    asked.page = asked.page or asked.out / "measured.md"
    return asked


def _twelve() -> list[str]:
    from benchmarks.studies.measured_models import TWELVE  # noqa: PLC0415 - imports torch, which only the others need

    return list(TWELVE)


def _model(model: str, asked: argparse.Namespace) -> dict[str, Any]:
    """The benchmark of one model, and the independent reading of the same call."""
    with tempfile.TemporaryDirectory() as caches:
        measured = _measured(
            model, asked, ("eager", asked.mode), limit=float(APART_SECONDS), keep_caches=caches
        )
        # The same code as was measured: Inductor times kernels in each process to choose their layout.
        kept = Path(caches, asked.mode)
        times = asked.apart if "configurations" in measured else 0
        readings = [_apart(model, asked, kept) for _ in range(times)]
    why = next(filter(None, (why for _, why in readings)), "")
    aparts = [entries for entries, _ in readings if entries]
    return {
        "measured": measured,
        "aparts": aparts,
        "why": why,
        "mode": asked.mode,
        "made": _provenance(asked),
    }


def _measured(
    model: str,
    asked: argparse.Namespace,
    configurations: tuple[str, ...],
    *,
    limit: float,
    keep_caches: str = "",
) -> dict[str, Any]:
    """What the product measures, as JSON; `{"failure": ...}` where it measures nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured_call.py"
        path.write_text(_source(model, asked), encoding="utf-8")
        plan = MeasurePlan(
            configurations, seconds=asked.seconds, limit_seconds=limit, cold_cache=True, device=asked.device,
            keep_caches=keep_caches, bisect=False,
        )  # fmt: skip
        return asyncio.run(_run(path, plan))


def _source(model: str, asked: argparse.Namespace) -> str:
    from benchmarks.studies.measured_models import source  # noqa: PLC0415 - imports torch

    return source(model, asked.dtype, asked.rows)


async def _run(path: Path, plan: MeasurePlan) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8").splitlines()
    line = next(number for number, code in enumerate(text, 1) if code.startswith("def call("))
    ahead = CaptureRequest(
        id=1,
        generation=1,
        target=Target(str(path), "call", "function", line, compiled=False),
        inputs=InputsPlan(provider=_PROVIDER, provider_line=text.index(f"def {_PROVIDER}():") + 1),
        roots=(str(path.parent),),
        limits=Limits(seconds=0, memory_mb=0),
    )
    request = replace(ahead, id=2).of_kind(MeasureRequest, plan=plan)
    log = _Log()
    worker = Worker(
        Interpreter(sys.executable), cwd=str(ROOT), env=_environment(), log=log.add, sample_after=0.0
    )
    try:
        # As in an editor, where the file was analyzed before a click, so that its libraries are imported.
        await worker.run(ahead, _tell)
        await log.settled()
        answer = await worker.run(request, _tell)
    finally:
        await worker.close()
    if not isinstance(answer, Answer):
        return {"failure": answer.failure.message if answer.failure is not None else answer.reason}
    report = answer.report
    if report.measured is None:
        return {
            "failure": "; ".join(failure.message for failure in report.failures) or "nothing was measured"
        }
    measured: dict[str, Any] = encode(report.measured)
    return measured


class _Log:
    """What the worker's log says, and when its host has imported what a run has needed."""

    def __init__(self) -> None:
        self._trying = self._there = False
        self._news = asyncio.Event()

    def add(self, line: str) -> None:
        """Take a line."""
        _say(line)
        self._trying = self._trying or "modules in a child" in line
        self._there = self._there or "ahead of the next run" in line
        self._news.set()

    async def settled(self) -> None:
        """Wait for the imports, `_IMPORTS` seconds at the most; if there are none, `_SOON`."""
        began = time.monotonic()
        while not self._there:
            left = began + (_IMPORTS if self._trying else _SOON) - time.monotonic()
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except asyncio.TimeoutError:
                return


def _tell(progress: Progress) -> None:
    _say(f"  {progress.phase} {progress.detail}")


def _say(line: str) -> None:
    print(f"{time.monotonic() - _BEGAN:7.2f}  {line}", file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    """Ours, in which the file of the target finds the models."""
    folders = [str(ROOT), str(ROOT / "compiler"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "TOKENIZERS_PARALLELISM": "false",
    }


def _apart(model: str, asked: argparse.Namespace, kept: Path) -> tuple[dict[str, Any], str]:
    """What the independent process read, and why it is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            sys.executable, "-m", "benchmarks.studies.measured_apart", model, str(out), "--device", asked.device,
            "--mode", asked.mode, "--dtype", asked.dtype, "--rows", str(asked.rows),
        ]  # fmt: skip
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor"),
            "TRITON_CACHE_DIR": str(kept / "triton"),
        }
        _say(f"  {shlex.join(command)}")
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**_environment(), **caches}, capture_output=True, text=True,
                timeout=APART_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {}, f"not done after {APART_SECONDS} s"
        if not out.exists():
            return {}, f"ended with {done.returncode}: {done.stderr[-2000:]}"
        data: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return data, ""


def _provenance(asked: argparse.Namespace) -> dict[str, str]:
    """The machine, the versions and the command."""
    import torch  # noqa: PLC0415 - for its version alone

    device = (
        torch.cuda.get_device_name(torch.device(asked.device)) if asked.device.startswith("cuda") else "CPU"
    )
    triton = _version("triton")
    return {
        "device": device,
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, Triton {triton}",
        "inputs": f"{asked.dtype}, rows as benchmarks/studies/measured_models.py has it; inference"
        if not asked.rows
        else f"{asked.dtype}, {asked.rows} times the rows of benchmarks/gpu/models.py; inference",
        "cache": "L2 cleared before each timed call, here and there" if asked.device != "cpu" else "as it is",
        "command": " ".join(
            [*_variables(), "python -m benchmarks.studies.measured", *map(shlex.quote, _arguments())]
        ),
    }


def _variables() -> list[str]:
    """What was set for the command, among the variables that change a compile; no folders of this machine."""
    variables = {
        name: value.rpartition("site-packages/")[2]
        for name, value in sorted(os.environ.items())
        if name.startswith(("TORCHINDUCTOR_", "TRITON_")) and not name.endswith(_FOLDERS)
    }
    return [f"{name}={value}" for name, value in {"PYTHONPATH": "compiler:server", **variables}.items()]


def _arguments() -> list[str]:
    """What was asked for, without the folders of this machine."""
    messages = sys.argv[1:]
    return [
        word
        for at, word in enumerate(messages)
        if not word.startswith(_PATHS) and (at == 0 or messages[at - 1] not in _PATHS)
    ]


def _version(library: str) -> str:
    import importlib.metadata  # noqa: PLC0415 - for this alone

    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _keep(path: Path, entries: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(entries), encoding="utf-8")
    why = entries.get("why") or entries["measured"].get("failure")
    if why:
        _say(f"{path.stem}: {why}")


def _page(folder: Path) -> str:
    """The page of all that is in the folder."""
    values_by_key: dict[str, dict[str, None]] = {}
    rows, seed = [], None
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        measured = data["measured"]
        if "configurations" not in measured:
            rows.append(measured_table.ModelRow(path.stem, failure=measured["failure"]))
        elif path.stem == SEED_FILE:
            command = data["made"]["command"]
            seed = measured_table.Seed(data["model"], decode(Measured, measured), command)
        else:
            for key, value in data["made"].items():
                values_by_key.setdefault(key, {})[value] = None
            rows.append(
                measured_table.row_of(path.stem, decode(Measured, measured), data["mode"], data["aparts"])
            )
    entries = {key: "<br>".join(values) for key, values in values_by_key.items()}
    return measured_table.page(entries, rows, seed)


if __name__ == "__main__":
    sys.exit(main())
