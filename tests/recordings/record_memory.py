"""Record the allocator's snapshots of the programs of `memory_jobs.py`, on a machine with an NVIDIA GPU.

    python tests/recordings/record_memory.py FOLDER

writes `NAME.pickle.gz` for each program, and `truth.json` with what the allocator itself counts. Paths of the machine
are replaced. Only what the allocator records is in a snapshot: no value of a tensor.
"""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent
_ENTRIES = 100_000
_LIMIT = 1.5e9
"""Bytes that the program may have which runs out of memory."""
_PATHS = (
    (re.compile(r"^.*/tests/recordings/"), "/workspace/app/"),
    (re.compile(r"^.*/(?:site|dist)-packages/"), "/opt/venv/lib/python3.11/site-packages/"),
    (re.compile(r"^.*/torchinductor_[^/]*/"), "/tmp/torchinductor_user/"),  # noqa: S108 - a text
    (re.compile(r"^.*/lib/python3\.\d+/"), "/usr/lib/python3.11/"),
)


def main() -> None:
    """Record every program."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(HERE))
    jobs: Any = importlib.import_module("memory_jobs")
    truths: dict[str, Any] = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    programs: dict[str, Callable[[], Any]] = {
        "clean": jobs.clean,
        "leak": jobs.leak,
        "rank0": lambda: jobs.rank(0),
        "rank1": lambda: jobs.rank(1),
        "compiled": jobs.compiled,
        "fragmented": jobs.fragmented,
        "out_of_memory": jobs.out_of_memory,
    }
    jobs.train(jobs.Net().cuda(), 64, 2)  # libraries have their workspaces
    for name, program in programs.items():
        truths[name] = _record(folder / f"{name}.pickle.gz", program, limited=name == "out_of_memory")
        sys.stdout.write(f"{name} {truths[name]}\n")
        sys.stdout.flush()
    (folder / "truth.json").write_text(json.dumps(truths, indent=1), encoding="utf-8")


def _record(path: Path, program: Callable[[], Any], *, limited: bool) -> dict[str, Any]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    if limited:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(_LIMIT / total)
    memory: Any = torch.cuda.memory
    memory._record_memory_history(stacks="python", max_entries=_ENTRIES)
    kept = program()
    torch.cuda.synchronize()
    snapshot = memory._snapshot()
    memory._record_memory_history(enabled=None)
    if limited:
        torch.cuda.set_per_process_memory_fraction(1.0)
    stats = torch.cuda.memory_stats()
    truth = {
        "allocated": stats["allocated_bytes.all.current"],
        "peak": stats["allocated_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.current"],
        "inactive_split": stats["inactive_split_bytes.all.current"],
        "requested": stats["requested_bytes.all.current"],
        "events": len(snapshot["device_traces"][0]),
    }
    del kept
    seen: set[int] = set()
    _neutral(snapshot, seen)
    path.write_bytes(gzip.compress(pickle.dumps(snapshot), 9, mtime=0))
    return truth


def _neutral(value: Any, seen: set[int]) -> None:
    """Replace the paths of frames, in place."""
    if isinstance(value, dict | list):
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, dict):
        if isinstance(value.get("filename"), str):
            for pattern, replacement in _PATHS:
                value["filename"] = pattern.sub(replacement, value["filename"], count=1)
        for item in value.values():
            _neutral(item, seen)
    elif isinstance(value, list):
        for item in value:
            _neutral(item, seen)


if __name__ == "__main__":
    main()
