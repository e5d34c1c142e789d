"""Compares kernels generated with the GPU hidden to those of the real compile, model by model.

    PYTHONPATH=compiler python -m benchmarks.gpu.fidelity [--models a,b] [--cases static,float16,dynamic] [--out FOLDER]

on a machine with that GPU. A case in which the GPU padded a multiplication, as it was faster so, is compiled again with
nothing timed: what then still differs is a difference of the generation. `--halves real --keep` records the real half
alone, `--against FOLDER` compares it with a virtual half made elsewhere. Invariant: each half of a model is a process
of its own, with an empty cache.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.kernel_text import Comparison, GraphText, compare
from fuselight.worker.processes import process

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 420
PROMISE = 0.99
"""Of kernels, identical."""
HEAD = (
    "| model | case | graph | kernels identical | nothing timed | library calls, nothing timed |",
    "|---|---|---|---|---|---|",
)
_MISSING: dict[str, Any] = {"graphs": [], "failure": "not run"}
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
            versions = _versions()
            _write(asked.out, versions, {half: halves[half] for half in asked.halves})
    if not halves["real"] or not halves["virtual"]:
        for half in asked.halves:
            for name in names:
                for case, value in halves[half][name].items():
                    kernels = sum(len(graph["kernels"]) for graph in value["graphs"])
                    print(
                        half,
                        name,
                        case,
                        kernels,
                        value["seconds"],
                        (value["failure"] or "")[:200],
                        flush=True,
                    )
        return 0
    return _report(asked.out, versions, names, halves)


def _write(folder: Path, entries: Mapping[str, Any], halves: Mapping[str, Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for half, models in halves.items():
        text = json.dumps({"made": entries, "models": models})
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
        data: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        if why or not data:
            data["rest" if data else "all"] = {"graphs": [], "failure": why or "no answer", "seconds": 0}
        return data


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
    for number in below[1:]:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)


@dataclass(frozen=True)
class PhaseResult:
    """One phase of a case: the kernels of the default configuration, and those of a compile that times nothing."""

    model: str
    case: str
    phase: str
    default: Comparison
    untimed: Comparison
    padded: Sequence[str]
    """Multiplications that the GPU padded in this case, as they were faster so."""

    @property
    def name(self) -> str:
        """As rows and files are named."""
        return f"{self.model}, {self.case}, {self.phase}"

    @property
    def cells(self) -> str:
        """As a row of a table."""
        return f"| {self.model} | {self.case} | {self.phase} | {_counts(self.default, self.untimed)} |"


@dataclass
class Totals:
    """Sums of the results of one model or of all."""

    default: Comparison = field(default_factory=Comparison)
    untimed: Comparison = field(default_factory=Comparison)

    def add(self, other: PhaseResult | Totals) -> None:
        """Count a result in."""
        self.default.add(other.default)
        self.untimed.add(other.untimed)


def _report(
    folder: Path, entries: Mapping[str, Any], names: Sequence[str], halves: Mapping[str, Mapping[str, Any]]
) -> int:
    total, rows, results, failures = Totals(), [], [], []
    for name in names:
        real, virtual = halves["real"].get(name, NOT_RUN), halves["virtual"].get(name, NOT_RUN)
        if NOT_RUN in (real, virtual):
            failures.append(f"{name}: {NOT_RUN['all']['failure']}")
            continue
        failures += _failures(name, real, virtual)
        of_model = Totals()
        for result in _results(name, real, virtual):
            results.append(result)
            rows.append(result.cells)
            of_model.add(result)
        rows.append(f"| **{name}** | | | {_counts(of_model.default, of_model.untimed)} |")
        total.add(of_model)
    rows.append(f"| **total** | | | {_counts(total.default, total.untimed)} |")
    table = "\n".join((*HEAD, *rows))
    (folder / "fidelity.md").write_text(table + "\n", encoding="utf-8")
    text = {"made": entries, "results": [asdict(result) for result in results], "failures": failures}
    (folder / "fidelity.json").write_text(json.dumps(text, indent=1), encoding="utf-8")
    _write_differences(folder / "differences", results)
    print("\n".join(row for row in table.splitlines() if "**" in row))
    print("\n".join(f"FAILED {failure}" for failure in failures))
    print(entries)
    whole = total.untimed
    return 0 if whole.total and whole.identical / whole.total >= PROMISE and not failures else 1


def _failures(name: str, real: Mapping[str, Any], virtual: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}, {case}, {half}: {(side.get(case) or _MISSING)['failure'].strip().splitlines()[0]}"
        for case in dict.fromkeys((*real, *virtual))
        for half, side in (("real", real), ("virtual", virtual))
        if (side.get(case) or _MISSING)["failure"]
    ]


def _results(name: str, real: Mapping[str, Any], virtual: Mapping[str, Any]) -> Iterator[PhaseResult]:
    """The comparisons of each case and phase of a model."""
    for case in dict.fromkeys((*real, *virtual)):
        theirs = real.get(case) or _MISSING
        ours = _texts((virtual.get(case) or _MISSING)["graphs"])
        default = compare(_texts(theirs["graphs"]), ours)
        untimed = compare(_texts(theirs["untimed"]["graphs"]), ours) if "untimed" in theirs else default
        for phase in dict.fromkeys((*default, *untimed)):
            nothing = Comparison()
            sides = default.get(phase, nothing), untimed.get(phase, nothing)
            yield PhaseResult(name, case, phase, *sides, theirs.get("padded", ()))


def _texts(graphs: Sequence[Mapping[str, Any]]) -> list[GraphText]:
    return [GraphText(**graph) for graph in graphs]


def _write_differences(folder: Path, results: Sequence[PhaseResult]) -> None:
    """One file for each phase with differences: what remains with nothing timed, and what is left to timing."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        parts = []
        if result.padded:
            differ = (
                f"{result.default.unmatched} kernels differ, {result.untimed.unmatched} with nothing timed"
            )
            parts.append(f"# decided by timing on the GPU: {differ}. Padded: {'; '.join(result.padded)}")
        parts += [f"# {name}: {counts}" for name, counts in result.untimed.extern_differences.items()]
        parts += result.untimed.differences
        if result.default.unmatched or result.untimed.unmatched or result.untimed.extern_differences:
            path = folder / f"{re.sub(r'[^a-z0-9]+', '-', result.name)}.diff"
            path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _counts(default: Comparison, untimed: Comparison) -> str:
    return " | ".join(
        f"{same} / {of}"
        for same, of in (
            (default.identical, default.total),
            (untimed.identical, untimed.total),
            (untimed.externs_identical, untimed.externs_total),
        )
    )


def _versions() -> dict[str, Any]:
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
