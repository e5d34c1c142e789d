"""Record torch's structured log of each program of `jobs.py`, for the tests of the reader of logs.

    python tests/recordings/record_jobs.py [NAME ...]

writes `jobs/torch-<version>/NAME/*.log.gz` beside itself, and `recording.json` with torch's version, the device, the
command, and the counters of torch at the end of each process, with which the tests compare what the reader counts.
It needs torch and Linux alone; torch 2.6 to 2.10 need setuptools, too. Each job is forked from one process that has
imported torch. The C++ kernels that Inductor generates are replaced by stubs, so that no compiler runs: keys and
records are the same, results are not. Paths are made neutral, and long repeated texts are shortened.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDER = Path(tempfile.mkdtemp())
SHARED_CACHE = {"cache_hit": "cache_miss"}
"""Jobs that start with what another job left in the caches."""
_KEPT_COMPONENTS = 16
_UNREAD = re.compile(
    r"BYTECODE|config$|runnable|prologue|epilogue|wrapper|orchestration|compiled_function|fw_metadata|before_|after_"
)
"""Names of records whose payloads no reader uses."""
_LONGEST_EVENT = 2_000


def main() -> None:
    jobs = import_program("jobs")
    import torch  # noqa: PLC0415

    names = sys.argv[1:]
    version = ".".join(torch.__version__.split(".")[:2])
    out = HERE / "jobs" / f"torch-{version}"
    out.mkdir(parents=True, exist_ok=True)
    path = out / "recording.json"
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"jobs": {}}
    for job, ranks in [*((job, 1) for job in jobs.ALONE), *((job, 2) for job in jobs.RANKS)]:
        if not names or job.__name__ in names:
            recorded["jobs"][job.__name__] = record(job, ranks, out / job.__name__)
            sys.stdout.write(f"{job.__name__}\n")
            sys.stdout.flush()
    recorded |= {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "device": "cpu",
        "command": " ".join(["python tests/recordings/record_jobs.py", *names]),
    }
    path.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    shutil.rmtree(FOLDER)


def import_program(name: str) -> Any:
    """Import a program of this folder with torch, which then writes its log, and with no C++ compiler."""
    os.environ["TORCH_TRACE"] = str(FOLDER / "unused")
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "0"
    sys.path.insert(0, str(HERE))
    program: Any = importlib.import_module(name)  # imports torch, which reads the variables
    import torch._dynamo.compiled_autograd  # noqa: PLC0415
    import torch._functorch.aot_autograd  # noqa: PLC0415
    import torch._inductor.compile_fx  # noqa: PLC0415
    import torch.distributed._functional_collectives  # noqa: F401, PLC0415
    from torch._inductor.async_compile import AsyncCompile  # noqa: PLC0415

    code_generation: Any = AsyncCompile
    code_generation.cpp_pybinding = lambda *_: lambda *_arguments: None
    return program


def record(job: Callable[[], None], ranks: int, out: Path) -> list[dict[str, Any]]:
    """Run a job in one process for each rank. Returns torch's counters of each."""
    name = job.__name__
    folder = FOLDER / name
    folder.mkdir()
    cache = FOLDER / f"cache_{SHARED_CACHE.get(name, name)}"
    processes = []
    for rank in range(ranks):
        process = os.fork()
        if process == 0:
            _run(job, folder, cache, rank if ranks > 1 else None, ranks)
        processes.append(process)
    for process in processes:
        os.waitpid(process, 0)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    for log in sorted(folder.glob("*.log")):
        neutral = re.sub(r"(torch_trace_(?:rank_\d+_)?)\w+\.log", rf"\1{name}.log", log.name)
        text = neutral_text(log.read_text(encoding="utf-8"))
        (out / f"{neutral}.gz").write_bytes(
            gzip.compress("".join(shortened_log(text)).encode("utf-8"), mtime=0)
        )
    return [_counters(folder / f"counters_{rank}.json") for rank in range(ranks)]


def _counters(path: Path) -> dict[str, Any]:
    """The counters of a process; none of one that was killed."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _run(job: Callable[[], None], folder: Path, cache: Path, rank: int | None, ranks: int) -> None:
    """In the child: does not return."""
    import torch  # noqa: PLC0415
    import torch._logging._internal as logs  # noqa: PLC0415

    handler: Any = logs.trace_log.handlers[0]
    handler.root_dir, handler.stream = str(folder), None  # an import of torch 2.8 has opened the parent's log
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    try:
        if rank is not None:
            torch.distributed.init_process_group(
                "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
            )
        torch.manual_seed(0)
        job()
    except BaseException:  # noqa: BLE001 - shown, and the other jobs are still recorded
        traceback.print_exc()
    handler.flush()
    counters = {group: dict(counts) for group, counts in torch._dynamo.utils.counters.items() if counts}
    (folder / f"counters_{rank or 0}.json").write_text(json.dumps(counters), encoding="utf-8")
    os._exit(0)


def neutral_text(text: str) -> str:
    """The text without paths of this machine."""
    import torch  # noqa: PLC0415

    for name, neutral in (
        (str(HERE), "/project"),
        (str(FOLDER), "/tmp/job"),  # noqa: S108 - a name
        (str(Path(torch.__file__).parent), "/python/site-packages/torch"),
        (str(Path(sys.prefix)), "/python"),
        (str(Path(sys.base_prefix)), "/python"),
    ):
        text = text.replace(name, neutral)
    return text


def _records(text: str) -> Iterator[tuple[str, list[str]]]:
    head, payload = "", []
    for line in text.splitlines(keepends=True):
        if line.startswith("\t"):
            payload.append(line)
            continue
        if head:
            yield head, payload
        head, payload = line, []
    yield head, payload


def shortened_log(text: str) -> Iterator[str]:
    """The log with every record of each kind; of what no reader uses, and of endless lists, only the start."""
    for line, payload in _records(text):
        prefix, brace, rest = line.partition("{")
        record = json.loads(brace + rest)
        kind = next(iter(record))
        if "has_payload" in record:
            record["has_payload"] = ""  # a hash, which no reader uses and nothing compresses
        if kind in {"compilation_metrics", "bwd_compilation_metrics"}:
            record[kind] = {key: value for key, value in record[kind].items() if not key.endswith("_config")}
        elif kind in {"create_symbol", "guard_added_fast"}:
            record[kind].pop("stack", None)  # of torch's own code
        yield f"{prefix}{json.dumps(record)}\n"
        yield from _short_payload(record[kind]["name"] if kind == "artifact" else kind, payload)


def _short_payload(name: str, payload: list[str]) -> list[str]:
    if name == "chromium_event":
        return _short_event(payload)
    if "_cache_" in name:
        return _short_cache(payload)
    return payload[:1] if _UNREAD.search(name) else payload


def _short_event(payload: list[str]) -> list[str]:
    event = json.loads("".join(payload))
    if len("".join(payload)) > _LONGEST_EVENT:
        event["args"] = {key: value for key, value in event["args"].items() if len(str(value)) < 60}
    return [f"\t{line}\n" for line in json.dumps(event, indent=0).split("\n")]


def _short_cache(payload: list[str]) -> list[str]:
    body = json.loads("".join(payload))
    if "components" in body:
        body["components"] = body["components"][:_KEPT_COMPONENTS]
    return [f"\t{json.dumps(body)}\n"]


if __name__ == "__main__":
    main()
