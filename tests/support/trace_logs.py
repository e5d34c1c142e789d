"""Logs as torch writes them, for tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "recordings"
JOBS = sorted(RECORDINGS.glob("jobs/torch-*/*/"))
"""One folder for each recorded job."""


def record(
    kind: str,
    value: object = None,
    payload: str | None = None,
    *,
    at: str = "0/0/0",
    process: int = 7,
    second: int = 0,
    **fields: Any,
) -> bytes:
    """A record as torch prints it. `at`: frame, compile of the frame, attempt; empty without a compile."""
    names = ("frame_id", "frame_compile_id", "attempt")
    head = {
        kind: {} if value is None else value,
        **fields,
        **dict(zip(names, map(int, at.split("/") if at else ()), strict=False)),
    }
    minute, rest = divmod(second, 60)
    line = f"V1127 20:{minute:02}:{rest:02}.000000 {process} torch/x.py:1] {json.dumps(head)}\n"
    body = "" if payload is None else "".join(f"\t{text}\n" for text in payload.split("\n"))
    return f"{line}{body}".encode()


def artifact(name: str, payload: str, **options: Any) -> bytes:
    """A record of kind artifact."""
    return record("artifact", {"name": name, "encoding": "string"}, payload, **options)


def event(name: str, phase: str, seconds: float, **options: Any) -> bytes:
    """A record of the timeline."""
    body = {
        "name": name,
        "ts": seconds * 1e6,
        "args": {},
        "ph": phase,
        "cat": "dynamo_timed",
        "tid": 0,
        "pid": 0,
    }
    return record("chromium_event", {}, json.dumps(body, indent=0), **options)


def compiled(
    at: str = "0/0/0",
    *,
    start: float = 1_000.0,
    process: int = 7,
    rank: int | None = None,
    path: str = "/job/a.py",
    function: tuple[str, int] = ("f", 3),
    bypass: str = "",
) -> bytes:
    """The records of a compile from its start to its metrics; it takes a second. `bypass`: why it is not cached."""
    name, line = function
    ranks = {} if rank is None else {"rank": rank}
    options: dict[str, Any] = {"at": at, "process": process, "second": int(start) % 3600, **ranks}
    metrics = {"co_name": name, "co_filename": path, "co_firstlineno": line, "fail_type": None}
    return b"".join(
        (
            event("dynamo", "B", start, **options),
            record("dynamo_start", {"stack": [{"line": line, "name": name, "filename": path}]}, **options),
            record("dynamo_output_graph", {}, "class GraphModule:\n    pass", **options),
            artifact("aotautograd_cache_bypass", json.dumps({"cache_bypass_reason": bypass}), **options)
            if bypass
            else b"",
            event("dynamo", "E", start + 1, **options),
            record("compilation_metrics", metrics, **{**options, "second": (int(start) + 1) % 3600}),
        )
    )
