"""Logs of small jobs, and projects with their source, for tests of what opens them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from tests.support.trace_logs import artifact, record

SOURCE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        x = x * self.scale
        print(x)
        return x.cos()
"""
REASON = """\
Graph break in user code at {path}:7
Graph Break Reason: Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`.
  Hint: Avoid calling it.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html

User code traceback:
  File "{root}/train.py", line 3, in <module>
    net(x)
  File "{path}", line 7, in forward
    {text}
"""


def log_of(
    path: str, *, process: int = 7, text: str = "print(x)", scale: str = "1.0", rank: int | None = None
) -> bytes:
    """The log of a process whose `forward` has a break, and compiles again for another scale."""
    root = path.rpartition("/")[0]
    ranks: dict[str, Any] = {} if rank is None else {"rank": rank}
    stack = [
        {"line": 3, "name": "<module>", "filename": 1, "loc": "net(x)"},
        {"line": 5, "name": "forward", "filename": 2},
    ]
    reason = f"0/0: L['self'].scale == {scale}  # x = x * self.scale  # {path[3:]}:6 in forward"
    metrics = {"co_name": "forward", "co_filename": path, "co_firstlineno": 5, "graph_op_count": 1}
    return b"".join(
        (
            record("str", [f"{root}/train.py", 1], at="", process=process, **ranks),
            record("str", [path, 2], at="", process=process, **ranks),
            record("dynamo_start", {"stack": stack}, process=process, **ranks),
            artifact(
                "dynamo_graph_break_reason",
                REASON.format(path=path, root=root, text=text),
                process=process,
                **ranks,
            ),
            record("compilation_metrics", metrics, process=process, **ranks),
            record("dynamo_start", {"stack": stack}, at="0/1/0", process=process, **ranks),
            artifact("recompile_reasons", f'["{reason}"]', at="0/1/0", process=process, **ranks),
            record("compilation_metrics", metrics, at="0/1/0", process=process, **ranks),
        )
    )


def written(folder: Path, logs: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in logs.items():
        (folder / f"dedicated_log_torch_trace_{name}.log").write_bytes(data)
    return folder


def project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").touch()
    return folder


def open_job(logs: Path, source: Path, **more: Any) -> OpenedJob:
    """Open logs of one job, without progress."""
    request = OpenRequest((logs,), (source,))
    (job,) = asyncio.run(open_jobs(request, lambda _text: None, CancelToken(), **more))
    return job
