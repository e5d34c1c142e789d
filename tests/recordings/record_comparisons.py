"""Record torch's structured logs of the programs of `compared_programs.py`, for the tests of the comparison of jobs.

    python tests/recordings/record_comparisons.py

writes `comparisons/torch-<version>/NAME.log.gz` and `recording.json` beside itself. Each program runs in a process that
is forked after the import of torch. The C++ kernels are replaced by stubs, so that no compiler runs.
"""

from __future__ import annotations

import gzip
import importlib
import json
import linecache
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> None:
    sys.path.insert(0, str(HERE))
    record_jobs: Any = importlib.import_module("record_jobs")
    os.environ |= {
        "TORCH_TRACE": str(record_jobs.FOLDER / "unused"),
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
    }
    compared_programs: Any = importlib.import_module("compared_programs")
    import torch  # noqa: PLC0415
    import torch._inductor.compile_fx  # noqa: PLC0415
    from torch._inductor.async_compile import AsyncCompile  # noqa: PLC0415

    code_generation: Any = AsyncCompile
    code_generation.cpp_pybinding = lambda *_: lambda *_arguments: None
    out = HERE / "comparisons" / f"torch-{'.'.join(torch.__version__.split('.')[:2])}"
    out.mkdir(parents=True, exist_ok=True)
    for name, program in compared_programs.programs().items():
        folder = record_jobs.FOLDER / name
        _start(program, folder)
        (log,) = folder.glob("*.log")
        text = record_jobs.neutral_text(log.read_text(encoding="utf-8").replace(str(folder), "/job"))
        data = "".join(record_jobs.shortened_log(text)).encode("utf-8")
        (out / f"{name}.log.gz").write_bytes(gzip.compress(data, mtime=0))
    about = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "device": "cpu",
        "command": "python tests/recordings/record_comparisons.py",
    }
    (out / "recording.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(record_jobs.FOLDER)


def _start(program: str, folder: Path) -> None:
    """Run a program in a process of its own."""
    process = os.fork()
    if process == 0:
        try:
            _run(program, folder)
        except BaseException:  # noqa: BLE001 - shown, and the other program is still recorded
            traceback.print_exc()
        os._exit(0)
    os.waitpid(process, 0)


def _run(program: str, folder: Path) -> None:
    import torch  # noqa: PLC0415
    import torch._logging._internal as logs  # noqa: PLC0415

    folder.mkdir()
    handler: Any = logs.trace_log.handlers[0]
    handler.root_dir = str(folder)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
    path = folder / "model.py"
    path.write_text(program, encoding="utf-8")
    linecache.checkcache()
    torch.manual_seed(0)
    try:
        exec(compile(program, str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
    finally:
        handler.flush()


if __name__ == "__main__":
    main()
