"""Compares kernels generated with the GPU hidden to those of the real compile, model by model.

    PYTHONPATH=compiler python -m benchmarks.gpu.fidelity [--models a,b] [--cases static,float16,dynamic] [--out FOLDER]

on a machine with that GPU. `--halves real --keep` records the real half alone, `--against FOLDER` compares it with a
virtual half made elsewhere. Invariant: each half of a model is a process of its own, with an empty cache.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.kernel_text import Comparison, GraphText, compare
from fuselight.worker.processes import process

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 420
PROMISE = 0.99
"""Of kernels, identical."""
NOT_RUN: dict[str, Any] = {"all": {"graphs": [], "failure": "not run: the time was over", "seconds": 0}}


def main() -> int:
    """Measure; the exit code is 0 if the promise holds."""
    asked = _asked()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    halves: dict[str, dict[str, Any]] = {"real": {}, "virtual": {}}
    if asked.against is not None:
        recorded = json.loads(gzip.decompress((asked.against / "real.json.gz").read_bytes()))
        halves["real"] = recorded["models"]
    names = asked.models or list(halves["real"]) or _names()
    with ThreadPoolExecutor(asked.workers) as pool:
        jobs = [
            (half, name, pool.submit(_half, half, name, asked, until))
            for name in names
            for half in asked.halves
        ]
        try:
            for half, name, job in jobs:
                halves[half][name] = job.result()
        except BaseException:
            for *_, job in jobs:
                job.cancel()
            raise
        finally:  # also what was measured before an error or Ctrl-C
            made = _made()
            _write(asked.out, made, {half: halves[half] for half in asked.halves})
    if not halves["real"] or not halves["virtual"]:
        for half in asked.halves:
            for name in names:
                for case, found in halves[half][name].items():
                    kernels = sum(len(graph["kernels"]) for graph in found["graphs"])
                    print(
                        half,
                        name,
                        case,
                        kernels,
                        found["seconds"],
                        (found["failure"] or "")[:200],
                        flush=True,
                    )
        return 0
    return _report(asked.out, made, names, halves)


def _write(folder: Path, made: Mapping[str, Any], halves: Mapping[str, Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for half, models in halves.items():
        text = json.dumps({"made": made, "models": models})
        (folder / f"{half}.json.gz").write_bytes(gzip.compress(text.encode()))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare virtual kernels to real ones.")
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--halves", type=lambda text: text.split(","), default=["real", "virtual"])
    parser.add_argument("--against", type=Path, help="a folder with real.json.gz")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--cases", default="static", help="sets of benchmarks.gpu.half, with commas")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument(
        "--minutes", type=float, help="start no model after so many; what was not run is listed"
    )
    parser.add_argument("--out", type=Path, default=Path("artifacts/fidelity"))
    parser.add_argument("--keep", action="store_true", help="keep the wrappers as they are, too")
    parser.add_argument(
        "--untimed", action="store_true", help="no padded multiplications in the real half either"
    )
    asked = parser.parse_args()
    if asked.against is not None:
        asked.halves = ["virtual"]
    return asked


def _names() -> list[str]:
    from benchmarks.gpu.models import MODELS  # noqa: PLC0415 - imports torch, which only the halves need

    return list(MODELS)


def _half(half: str, name: str, asked: argparse.Namespace, until: float | None) -> dict[str, Any]:
    """The answer of benchmarks.gpu.half; after `until` none is started."""
    if until is not None and time.monotonic() > until:
        return NOT_RUN
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        out = Path(folder) / "out.json"
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "cache"),
            "TRITON_CACHE_DIR": str(Path(folder) / "triton"),
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'compiler'}",
            "OMP_NUM_THREADS": "2",
            "TORCHINDUCTOR_COMPILE_THREADS": "2",  # many halves run in parallel
            "FIDELITY_UNTIMED": "1" if asked.untimed else "",
        }
        command = [
            sys.executable,
            "-m",
            "benchmarks.gpu.half",
            half,
            name,
            str(out),
            "--device",
            asked.device,
            "--cases",
            asked.cases,
        ]
        command += ["--keep"] if asked.keep else []
        why = run_with_limit(command, environment, TIMEOUT)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        if why or not found:
            found["rest" if found else "all"] = {"graphs": [], "failure": why or "no answer", "seconds": 0}
        return found


def run_with_limit(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    """Run a command, and end it and every process below it at the limit.

    Returns why it gave no complete answer, empty if it did.
    """
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        ) as half:
            try:
                code = half.wait(seconds)
            except BaseException as error:
                _end_tree(half.pid)  # its compile workers, too: they write into the folder
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return f"not done after {seconds:g} s"
        errors.seek(0)
        return f"ended with {code}: {errors.read()[-2000:]}" if code else ""


def _end_tree(pid: int) -> None:
    """Kill a process that is not collected yet, its group, and all below it."""
    below = process.descendants(pid)
    process.kill_group(pid)
    for one in below[1:]:
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)


def _report(
    folder: Path, made: Mapping[str, Any], names: Sequence[str], halves: Mapping[str, Mapping[str, Any]]
) -> int:
    total, rows, results, failures = Comparison(), [], {}, []
    for name in names:
        of_model = Comparison()
        real, virtual = halves["real"][name], halves["virtual"][name]
        if NOT_RUN in (real, virtual):
            failures.append(f"{name}: {NOT_RUN['all']['failure']}")
            continue
        for case in dict.fromkeys((*real, *virtual)):
            sides = [half.get(case, {"graphs": [], "failure": "not run"}) for half in (real, virtual)]
            failures += [
                f"{name}, {case}, {half}: {side['failure'].strip().splitlines()[0]}"
                for half, side in zip(("real", "virtual"), sides, strict=True)
                if side["failure"]
            ]
            graphs = [[GraphText(**graph) for graph in side["graphs"]] for side in sides]
            for phase, found in compare(*graphs).items():
                results[f"{name}, {case}, {phase}"] = asdict(found)
                rows.append(f"| {name} | {case} | {phase} | {_counts(found)} |")
                of_model.add(found)
        rows.append(f"| **{name}** | | | {_counts(of_model)} |")
        total.add(of_model)
    rows.append(f"| **total** | | | {_counts(total)} |")
    head = "| model | case | graph | kernels identical | library calls identical |\n|---|---|---|---|---|"
    table = "\n".join((head, *rows))
    (folder / "fidelity.md").write_text(table + "\n", encoding="utf-8")
    text = json.dumps({"made": made, "results": results, "failures": failures}, indent=1)
    (folder / "fidelity.json").write_text(text, encoding="utf-8")
    print("\n".join(row for row in table.splitlines() if "**" in row))
    print("\n".join(f"FAILED {failure}" for failure in failures))
    print(made)
    return 0 if total.total and total.identical / total.total >= PROMISE and not failures else 1


def _counts(found: Comparison) -> str:
    return f"{found.identical} / {found.total} | {found.externs_identical} / {found.externs_total}"


def _made() -> dict[str, Any]:
    """The machine and the versions."""
    import torch  # noqa: PLC0415 - after the halves are done

    cudnn: Any = torch.backends.cudnn
    versions: dict[str, str | None] = {}
    for library in ("triton", "transformers", "timm", "torchvision"):
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            versions[library] = None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        **versions,
        "cudnn": cudnn.version() if torch.cuda.is_available() else None,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": f"python -m benchmarks.gpu.fidelity {' '.join(sys.argv[1:])}".strip(),
    }


if __name__ == "__main__":
    sys.exit(main())
