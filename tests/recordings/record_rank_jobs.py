"""Record torch's structured log of each rank of each program of `rank_jobs.py`.

    python tests/recordings/record_rank_jobs.py

writes `ranks/torch-<version>.tar.xz`: a folder for each program, with one log for each rank. It needs torch and Linux
alone. Ranks are forked from one process that has imported torch, and talk to each other with gloo. The logs of equal
ranks are nearly the same text, so that one archive of all of them is small.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import shutil
import signal
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from record_jobs import (  # type: ignore[import-not-found]
    FOLDER,
    HERE,
    neutral_text,
    shortened_log,
)

_SECONDS = 120
_SHORT = "tests/recordings/rank_jobs.py"
"""The path in the comments of guards, where torch leaves its start out."""
_KEPT = frozenset(
    {
        "aot_backward_graph",
        "aot_forward_graph",
        "aot_inference_graph",
        "chromium_event",
        "compilation_metrics",
        "bwd_compilation_metrics",
        "create_symbol",
        "dynamo_cpp_guards_str",
        "dynamo_error",
        "dynamo_graph_break_reason",
        "dynamo_output_graph",
        "dynamo_start",
        "guard_added_fast",
        "recompile_reasons",
        "str",
        "symbolic_shape_specialization",
        "torch_version",
    }
)
"""The records that a comparison of ranks reads."""


def main() -> None:
    os.environ["TORCH_TRACE"] = str(FOLDER / "unused")
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    sys.path.insert(0, str(HERE))
    rank_jobs: Any = importlib.import_module("rank_jobs")  # imports torch, which reads the variables
    import torch  # noqa: PLC0415
    import torch._functorch.aot_autograd  # noqa: PLC0415

    _import_all(torch)
    names = sys.argv[1:]
    version = ".".join(torch.__version__.split(".")[:2])
    out = HERE / "ranks" / f"torch-{version}.tar.xz"
    out.parent.mkdir(exist_ok=True)
    with tarfile.open(out, "w:xz", preset=9) as archive:
        for job, ranks in {**rank_jobs.DIFFERENT, **rank_jobs.DUMPED, **rank_jobs.EQUAL}.items():
            if not names or job.__name__ in names:
                for name, data in _record(job, ranks):
                    _add(archive, f"{job.__name__}/{name}", data)
                sys.stdout.write(f"{job.__name__}\n")
                sys.stdout.flush()
    shutil.rmtree(FOLDER)


def _import_all(torch: Any) -> None:
    """Import what a compile imports, so that ranks are forked with it; a group of one rank without a network."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    reduce = torch.distributed._functional_collectives.all_reduce
    torch.compile(lambda x: reduce(x.sin(), "sum", "0"), backend="aot_eager")(
        torch.ones(2, requires_grad=True)
    )
    torch.distributed.destroy_process_group()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _record(job: Callable[[], None], ranks: int) -> Iterator[tuple[str, bytes]]:
    """Run a job in one process for each rank. Yields names and contents of its logs and dumps."""
    folder = FOLDER / job.__name__
    folder.mkdir()
    processes = []
    for rank in range(ranks):
        process = os.fork()
        if process == 0:
            _run(job, folder, rank, ranks)
        processes.append(process)
    deadline = time.monotonic() + _SECONDS
    for process in processes:
        while os.waitpid(process, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
    for log in sorted(folder.glob("*.log")):
        rank = log.name.partition("_rank_")[2].partition("_")[0]
        text = neutral_text(log.read_text(encoding="utf-8")).replace(_SHORT, "project/rank_jobs.py")
        yield f"dedicated_log_torch_trace_rank_{rank}_{job.__name__}.log", _kept(text).encode("utf-8")
    for dump in sorted(folder.glob("nccl_trace_rank_*")):
        body = pickle.loads(dump.read_bytes())  # noqa: S301 - written by the child above
        yield dump.name, pickle.dumps(_neutral_values(body), protocol=2)


def _neutral_values(value: Any) -> Any:
    """The value with neutral texts in it."""
    if isinstance(value, str):
        return neutral_text(value)
    if isinstance(value, dict):
        return {key: _neutral_values(item) for key, item in value.items()}
    return type(value)(map(_neutral_values, value)) if isinstance(value, list | tuple) else value


def _kept(text: str) -> str:
    """The records that are compared; of the events of the timeline, without their arguments."""
    parts: list[str] = []
    is_kept = True
    for line in shortened_log(text):
        if not line.startswith("\t"):
            is_kept = any(f'"{name}"' in line[:400] for name in _KEPT)
        if is_kept:
            parts.append(line)
    return "".join(parts)


def _run(job: Callable[[], None], folder: Path, rank: int, ranks: int) -> None:
    """In the child: does not return."""
    import torch  # noqa: PLC0415
    import torch._logging._internal as logs  # noqa: PLC0415

    handler: Any = logs.trace_log.handlers[0]
    handler.close()
    handler.stream = None
    handler.root_dir = str(folder)
    os.environ["RECORDED_FOLDER"] = str(folder)
    torch._logging.structured.INTERN_TABLE.clear()
    try:
        torch._dynamo.reset()
        torch._dynamo.convert_frame.FRAME_COUNTER = 0
        torch._dynamo.convert_frame.FRAME_COMPILE_COUNTER.clear()
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
        )
        torch.manual_seed(0)
        job()
    except BaseException:  # noqa: BLE001 - shown, and the other jobs are still recorded
        traceback.print_exc()
    handler.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
