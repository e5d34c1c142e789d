"""Peaks that `fuselight` measures, beside its estimates: `python -m benchmarks.studies.measured_peaks`.

`--record FILE` measures each target of peak_targets.py with `fuselight memory --measure` and `fuselight bench --train`, on
this machine's GPU with `--gpu`, and writes what they print as JSON, several at a time with `--parallel`, with one of the two by `--commands`. FILE grows with
each target, and those that it has are not measured again.
`--page` writes docs/results/memory-cpu.md and memory-bench.md from the recordings.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TARGETS = Path(__file__).with_name("peak_targets.py")
RECORDINGS = {name: ROOT / "tests" / "recordings" / name / "peaks.json" for name in ("cpu", "h200")}
PAGES = ROOT / "docs" / "results"
GPU_INPUTS = {
    "FeedForward": "f32[65536, 256]",
    "Attention": "f32[128, 256, 128]",
    "Vocabulary": "i64[16384] % 8000",
    "Encoder": "f32[256, 128, 128]",
    "Convolutions": "f32[128, 3, 64, 64]",
    "Recurrent": "f32[512, 64, 64]",
}
MEMORY_HEAD = """\
# Estimated memory against a CPU

<!-- Written by benchmarks/studies/measured_peaks.py. -->

`fuselight memory --measure` estimates a training step with AdamW for this CPU, and measures it: torch {torch}, float32.
[memory.md](memory.md) compares estimates with a GPU, and [memory-bench.md](memory-bench.md) those of benchmarks.

```
python -m benchmarks.studies.measured_peaks --record tests/recordings/cpu/peaks.json
python -m benchmarks.studies.measured_peaks --page
```

| target | inputs | form | estimated, bytes | measured, bytes | error |
|---|---|---|--:|--:|--:|
"""
MEMORY_TAIL = """
The targets are those of `benchmarks/studies/peak_targets.py`.

- What operators allocate inside was compared with the allocator's events operator by operator, and is in a table: each
  thread's scores of attention, and the copy of its gradient; copies in the backward of batch and layer norms; blocks of
  channels of a convolution; what a product copies, as the gradient of a sum.
- Recurrent: oneDNN keeps gates and states of an LSTM in a workspace, which has no size on fake tensors: the table has its
  size for float32. `torch.compile` leaves the layer as it is.
- The table is that of an x86 processor with AVX-512; blocks of channels are those of AVX2 where it is that. Attention of bfloat16 has
  keys and values once more on a processor with AMX. Products of bfloat16 and float16 have scratch memory of oneDNN, which it lacks: up
  to 2 MB in products of 1,024 to 4,096 rows.
"""
BENCH_HEAD = """\
# Peaks of tensors in benchmarks

<!-- Written by benchmarks/studies/measured_peaks.py. -->

`fuselight bench --train` measures one call of each configuration, forward and backward, and estimates it without running it
([how](../measuring.md#how-is-memory-measured)). On a GPU, reserved memory and pieces between tensors are named apart. `-`: not
known, as an estimate that had not ended after a minute; other targets were not measured on that machine. The rows of an H200 were
recorded before estimates had what cuDNN allocates for convolutions and recurrent layers, and have not been recorded again.

```
python -m benchmarks.studies.measured_peaks --record tests/recordings/h200/peaks.json --gpu --parallel 6    # on the GPU
python -m benchmarks.studies.measured_peaks --page
```
"""
BENCH_TABLE = """
## {device}, torch {torch}

| target | inputs | configuration | estimated, MB | measured, MB | error | reserved, MB | in pieces, MB |
|---|---|---|--:|--:|--:|--:|--:|
"""
MB = 1e6
COMMANDS = ("memory", "bench")


def targets(text: str) -> dict[str, str]:
    """The inputs of each target, by its name."""
    return dict(re.findall(r"^# fuselight: (\w+)\(\)\((.*), train=True\)$", text, re.MULTILINE))


def run(command: str, path: Path, target: str, *options: str) -> Any:
    """What a command prints of a target as JSON; exit codes say what it found. Raises ValueError for anything else."""
    arguments = [command, str(path), "--target", target, "--format", "json", *options]
    done = subprocess.run(
        [sys.executable, "-m", "fuselight_server", *arguments], capture_output=True, text=True, check=False
    )
    try:
        found = json.loads(done.stdout)["targets"][0]
    except (ValueError, LookupError):
        raise ValueError(done.stderr[-500:]) from None
    if found["failures"]:
        raise ValueError(str(found["failures"])[:500])
    return found


def memory_rows(call: dict[str, Any]) -> list[dict[str, Any]]:
    """The peaks of `fuselight memory --measure`."""
    return [
        {"form": form, "estimated": call[form]["bytes"], "measured": call[f"measured_{form}"]["bytes"]}
        for form in ("eager", "compiled")
        if call[form] is not None and call[f"measured_{form}"] is not None
    ]


def bench_rows(target: dict[str, Any]) -> list[dict[str, Any]]:
    """The peaks of a benchmark."""
    rows = target["page"]["configurations"]
    return [{"form": row["name"], **row["memory"]} for row in rows if row["memory"] is not None]


def record(path: Path, *, gpu: bool, parallel: int, commands: Sequence[str]) -> None:
    """Measure the targets that the file does not have."""
    import torch  # noqa: PLC0415 - pages are written without it

    text, started = TARGETS.read_text(encoding="utf-8"), time.monotonic()
    known = targets(text)
    if gpu:
        for name, inputs in GPU_INPUTS.items():
            text = text.replace(f"{name}()({known[name]}, train=True)", f'{name}()({inputs}, train=True, device="cuda")')
        known = GPU_INPUTS
    device = torch.cuda.get_device_name() if gpu else platform.machine()
    data: dict[str, Any] = {"torch": str(torch.__version__), "device": device, "rows": []}
    if path.is_file():
        data = json.loads(path.read_text(encoding="utf-8"))
    data["rows"] = [row for row in data["rows"] if "error" not in row]
    measured = {row["target"] for row in data["rows"]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "targets.py"
        file.write_text(text, encoding="utf-8")
        with ThreadPoolExecutor(parallel) as threads:
            waiting = [
                threads.submit(_row, file, name, inputs, commands)
                for name, inputs in known.items()
                if name not in measured
            ]
            for done in as_completed(waiting):
                data["rows"].append(done.result())
                print(json.dumps(done.result()), f"{time.monotonic() - started:.0f} s", flush=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _row(file: Path, name: str, inputs: str, commands: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"target": name, "inputs": inputs}
    short = ("--no-accuracy", "--no-profile", "--seconds", "0.2", "--rounds", "2")
    try:
        if "memory" in commands:
            row["memory"] = memory_rows(run("memory", file, name, "--measure")["calls"][0])
        if "bench" in commands:
            row["bench"] = bench_rows(run("bench", file, name, "--train", "--compare", "default", *short))
    except ValueError as error:
        row["error"] = str(error)
    return row


def _error(estimated: int | None, measured: int) -> str:
    return f"{100 * (estimated / measured - 1):+.2f}%" if estimated is not None else "-"


def _megabytes(size: int | None) -> str:
    return f"{size / MB:,.1f}" if size is not None else "-"


def _in_order(data: dict[str, Any]) -> list[dict[str, Any]]:
    order = list(GPU_INPUTS)
    return sorted(data["rows"], key=lambda row: order.index(row["target"]))


def memory_page(data: dict[str, Any]) -> str:
    """The page of `fuselight memory --measure` on a CPU."""
    lines = [
        f"| {row['target']} | `{row['inputs']}` | {peak['form']} | {peak['estimated']:,} | {peak['measured']:,} | "
        f"{_error(peak['estimated'], peak['measured'])} |"
        for row in _in_order(data)
        for peak in row.get("memory", ())
    ]
    return MEMORY_HEAD.format(torch=data["torch"]) + "\n".join(lines) + "\n" + MEMORY_TAIL


def bench_table(data: dict[str, Any]) -> str:
    """The benchmarks of one machine."""
    lines = [
        f"| {row['target']} | `{row['inputs']}` | {peak['form']} | {_megabytes(peak['estimated_bytes'])} | "
        f"{_megabytes(peak['tensor_bytes'])} | {_error(peak['estimated_bytes'], peak['tensor_bytes'])} | "
        f"{_megabytes(peak['reserved_bytes'])} | {_megabytes(peak['between_bytes'])} |"
        for row in _in_order(data)
        for peak in row.get("bench", ())
        if peak["tensor_bytes"] is not None
    ]
    return BENCH_TABLE.format(**data) + "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """The text of each page, of the recordings."""
    known = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in RECORDINGS.items()}
    tables = [bench_table(known[name]) for name in ("h200", "cpu")]
    return {PAGES / "memory-cpu.md": memory_page(known["cpu"]), PAGES / "memory-bench.md": BENCH_HEAD + "".join(tables)}


def main() -> None:
    """Record, or write the pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--parallel", type=int, default=1, metavar="TARGETS")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.record is not None:
        record(options.record, gpu=options.gpu, parallel=options.parallel, commands=options.commands)
    if options.page:
        for path, text in pages().items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
