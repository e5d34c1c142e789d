"""Estimated memory of models of transformers and timm against a GPU, and the verdicts for three sizes of GPU.

    python -m benchmarks.studies.memory_of_libraries --estimate FILE    # without a visible GPU
    python -m benchmarks.studies.memory_of_libraries --record FILE --estimates FILE    # on the GPU
    python -m benchmarks.studies.memory_of_libraries --page

A row is a training step with Adam, in bfloat16. The recording also has whether the step runs where the allocator is
limited, from the start, to the memory of a GPU of each of SIZES less the driver's context. `--page` writes
docs/results/memory-libraries.md from tests/recordings/h200/memory_libraries.json.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.studies import memory_on_gpu, record_memory_steps
from benchmarks.studies.memory_library_models import LIBRARY
from benchmarks.studies.memory_more_models import MORE

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "recordings" / "h200" / "memory_libraries.json"
PAGE = ROOT / "docs" / "results" / "memory-libraries.md"
SIZES = (8, 12, 16)
"""GB of three GPUs, as a verdict counts them."""
CONTEXT = 0.6e9
"""As explain/memory/fit.py has it."""
PROCESSES = 8
FORMS = ("eager", "compiled")
GB, CLOSE = 1e9, 5.0
HEAD = """\
# Estimated memory of models of libraries

<!-- Written by benchmarks/studies/memory_of_libraries.py. -->

Models of transformers {transformers} and timm {timm} from configurations, with random weights: a training step in bfloat16
with Adam, estimated without a visible GPU and measured on an {device} (`torch.cuda.max_memory_allocated` of the second step,
torch {torch}). [memory.md](memory.md) has models that are written out.

```
python -m benchmarks.studies.memory_of_libraries --estimate FILE    # without a visible GPU
python -m benchmarks.studies.memory_of_libraries --record FILE --estimates FILE    # on the GPU
python -m benchmarks.studies.memory_of_libraries --page
```

| model | eager: estimated, MB | measured | error | compiled: estimated, MB | measured | error |
|---|--:|--:|--:|--:|--:|--:|
"""
TAIL = """
Without the models of convolutions, marked with *, these are {count} steps of {models} models: the median of the absolute
errors is {median:.2f}%, {close} are within 5%, and the largest is {most:.1f}%. Steps with convolutions: {convolved}.

- OPT, BART and Pegasus skip a layer where a random number is below a limit, here 0: one random number is taken as 0.5.
- An estimate is that of the installed torch. Estimated with torch 2.13.0, the compiled steps of OPT, BART and Pegasus need 35% to
  50% less than torch 2.11.0 needs on the GPU, and BERT's 3,300 MB in place of 10,849: estimate with the torch that the job has.
- The estimates of BERT, RoBERTa, OPT, BART, Pegasus, ViT, ConvNeXt and RegNet were made again with the present version; the others
  are older.
"""
VERDICTS = """
## Three sizes of GPU

Only an H200 was there: the allocator was limited to 8, 12 and 16 GB less 0.6 GB for the driver's context, before the model was
made. What other GPUs would choose, as kernels with other workspaces, is not in it.

| verdict | steps and sizes | ran |
|---|--:|--:|
"""


def _models() -> dict[str, tuple[Callable[[], Any], Callable[[], torch.Tensor]]]:
    return {name: (model.make, model.make_input) for name, model in LIBRARY.items()}


def _estimate(key: tuple[str, str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    MORE.update(_models())
    started, (name, form) = time.monotonic(), key
    row: dict[str, Any] = {"model": name, "form": form, "torch": torch.__version__}
    try:
        row["estimated"] = memory_on_gpu.estimated(name, training=True, form=form)
    except Exception as error:  # noqa: BLE001 - of one model: the others go on
        row["error"] = f"{type(error).__name__}: {error}"[:300]
    return {**row, "seconds": round(time.monotonic() - started, 1)}


def estimate(path: Path, processes: int, forms: Sequence[str]) -> None:
    """Write a line for each step."""
    keys = [(name, form) for form in reversed(forms) for name in LIBRARY]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, maxtasksperchild=4) as pool, path.open("w", encoding="utf-8") as file:
        for row in pool.imap_unordered(_estimate, keys):
            file.write(json.dumps(row) + "\n")
            file.flush()


def _rows(index: int, estimates: dict[tuple[str, str], int]) -> Iterator[dict[str, Any]]:
    record_memory_steps.EVERY.update(_models())
    for name in list(LIBRARY)[index::PROCESSES]:
        for form in FORMS:
            row: dict[str, Any] = {"model": name, "form": form, "estimated": estimates.get((name, form))}
            try:
                row |= record_memory_steps.measured(name, "training", form)
                yield row
                row["runs_in"] = {str(size): _runs(name, form, row, size) for size in SIZES}
            except Exception as error:  # noqa: BLE001 - of the model, or of the compiler: the others go on
                row["error"] = f"{type(error).__name__}: {error}"[:300]
            yield row


def _runs(name: str, form: str, row: dict[str, Any], size: int) -> bool | None:
    """Whether the step runs in a GPU of `size` GB. What was reserved without a limit, and less, needs no other run."""
    limit = size * GB - CONTEXT
    if row["reserved"] <= limit or row["bytes"] > limit:
        return bool(row["reserved"] <= limit)
    return record_memory_steps.runs_in(name, "training", form, int(limit))


def record(path: Path, estimates: Path, seconds: float) -> None:
    """Measure every model, several at a time, and write the file."""
    began = time.monotonic()
    parts = [path.with_suffix(f".{index}.jsonl") for index in range(PROCESSES)]
    command = [sys.executable, "-m", "benchmarks.studies.memory_of_libraries", "--estimates", str(estimates)]
    record_memory_steps.run_parts(command, parts, seconds)
    known = {}
    for part in parts:
        for line in part.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and line.endswith("}"):
                row = json.loads(line)
                known[row["model"], row["form"]] = row
        part.unlink()
    rows = [known[name, form] for name in LIBRARY for form in FORMS if (name, form) in known]
    recording = {
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "timm": importlib.metadata.version("timm"),
        "device": torch.cuda.get_device_name(),
        "rows": rows,
    }
    path.write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows, {time.monotonic() - began:.0f} s")


def page(recording: dict[str, Any]) -> str:
    """docs/results/memory-libraries.md."""
    rows = {(row["model"], row["form"]): row for row in recording["rows"] if row.get("estimated") and "bytes" in row}
    text = HEAD.format(**{name: value for name, value in recording.items() if name != "rows"})
    errors = {key: 100 * (row["estimated"] / row["bytes"] - 1) for key, row in rows.items()}
    for name, model in LIBRARY.items():
        cells = []
        for form in FORMS:
            row = rows.get((name, form))
            cells += ["-"] * 3 if row is None else [f"{row[key] / 1e6:,.0f}" for key in ("estimated", "bytes")]
            cells += [] if row is None else [f"{errors[name, form]:+.2f}%"]
        text += f"| {name}{'*' * model.has_convolutions} | {' | '.join(cells)} |\n"
    plain = [abs(error) for (name, _), error in errors.items() if not LIBRARY[name].has_convolutions]
    convolved = [error for (name, _), error in errors.items() if LIBRARY[name].has_convolutions]
    text += TAIL.format(
        count=len(plain),
        models=len({name for name, _ in errors if not LIBRARY[name].has_convolutions}),
        median=statistics.median(plain),
        close=sum(error <= CLOSE for error in plain),
        most=max(plain),
        convolved=f"{min(convolved):+.1f}% to {max(convolved):+.1f}%" if convolved else "none",
    )
    return text + _verdicts(list(rows.values()))


def _verdicts(rows: list[dict[str, Any]]) -> str:
    from fuselight_server.explain.memory.fit import Fit, verdict  # noqa: PLC0415 - not on the GPU's machine

    counts = {fit: [0, 0] for fit in Fit}
    for row in rows:
        for size, ran in row.get("runs_in", {}).items():
            if ran is not None:
                counts[verdict(row["estimated"], float(size))][0] += 1
                counts[verdict(row["estimated"], float(size))][1] += ran
    return VERDICTS + "".join(f"| {fit.value} | {count} | {ran} |\n" for fit, (count, ran) in counts.items())


def main() -> None:
    """Estimate, record, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--estimate", type=Path, metavar="FILE")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--estimates", type=Path, metavar="FILE")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--part", type=int, help="print the rows of one process; for this script itself")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.estimate is not None:
        estimate(options.estimate, options.processes, options.forms)
    if options.part is not None:
        lines = map(json.loads, options.estimates.read_text(encoding="utf-8").splitlines())
        known = {(row["model"], row["form"]): row["estimated"] for row in lines if "estimated" in row}
        for row in _rows(options.part, known):
            print(json.dumps(row), flush=True)
            gc.collect()
    if options.record is not None:
        record(options.record, options.estimates, options.seconds)
    if options.page:
        PAGE.write_text(page(json.loads(RECORDING.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
