"""Record torch's structured log of each start of `cache_starts.py`, for the tests of the causes of cache misses.

    python tests/recordings/record_caches.py [START...]

writes `caches/torch-<version>/NAME.log.gz` and `recording.json` beside itself. Each start is forked from one process
that has imported torch, after the base start has filled the cache; the C++ kernels are replaced by stubs, so that no
compiler runs: keys and records are the same. Of a log the records that the caches need are kept. Components with the
same hash in all logs are left out: no comparison depends on them.
"""

from __future__ import annotations

import gzip
import importlib
import json
import linecache
import logging
import os
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AOT_LOGGER = "torch._functorch._aot_autograd.autograd_cache"
_KINDS = frozenset(
    (
        "torch_version",
        "str",
        "dynamo_start",
        "dynamo_output_graph",
        "compilation_metrics",
        "bwd_compilation_metrics",
    )
)
_METRICS = re.compile(
    r"co_|start_time|time_us$|compile_time_s$|duration|is_forward|fail_|count$|triton_|cuda_version|(?:dynamo|functorch)_config"
)
_PHASES = re.compile(
    r'"name": "(?:inductor_compile|create_aot_dispatcher_function|dynamo|entire_backward_compile)"'
)
_SWITCHES = ("force_disable_caches", "fx_graph_cache")


def main(chosen: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {
            "TORCH_TRACE": str(folder / "unused"),
            "TORCHINDUCTOR_VEC_ISA_OK": "1",
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
        }
        sys.path.insert(0, str(HERE))
        cache_starts: Any = importlib.import_module(
            "cache_starts"
        )  # imports torch, which reads the variables
        import torch  # noqa: PLC0415
        import torch._functorch.aot_autograd  # noqa: PLC0415
        import torch._inductor.compile_fx  # noqa: PLC0415
        from torch._inductor.async_compile import AsyncCompile  # noqa: PLC0415

        code_generation: Any = AsyncCompile
        code_generation.cpp_pybinding = lambda *_: lambda *_arguments: None
        logger = logging.getLogger(AOT_LOGGER)
        logger.setLevel(logging.DEBUG)  # which records the components of AOTAutograd's keys
        logger.propagate = False
        logger.addHandler(logging.NullHandler())
        starts = [start for start in cache_starts.STARTS if not chosen or start in (*chosen, "base")]
        for start in starts:
            _start(start, folder)
            sys.stdout.write(f"{start}\n")
            sys.stdout.flush()
        texts = {start: _neutral(_log(folder / start), folder) for start in starts}
        version = ".".join(torch.__version__.split(".")[:2])
        _write(texts, HERE / "caches" / f"torch-{version}", torch.__version__, chosen)


def _start(name: str, folder: Path) -> None:
    """Run a start in a process of its own."""
    process = os.fork()
    if process == 0:
        try:
            _run(name, folder)
        except BaseException:  # noqa: BLE001 - shown, and the other starts are still recorded
            traceback.print_exc()
        os._exit(0)
    os.waitpid(process, 0)


def _run(name: str, folder: Path) -> None:
    cache_starts: Any = importlib.import_module("cache_starts")
    import torch  # noqa: PLC0415
    import torch._logging._internal as logs  # noqa: PLC0415

    (folder / name).mkdir()
    handler: Any = logs.trace_log.handlers[0]
    handler.root_dir = str(folder / name)
    cache = name if name in cache_starts.OTHER_FOLDER else "base"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / f"cache_{cache}")
    if name.startswith("rank_"):
        from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

        rank = int(name.removeprefix("rank_"))
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=8)
    if name in cache_starts.WITHOUT_LOGGER:
        logging.getLogger(AOT_LOGGER).setLevel(logging.WARNING)
    path = folder / name / cache_starts.FILE_NAMES.get(name, "train.py")
    path.write_text(cache_starts.program_of(name), encoding="utf-8")
    linecache.checkcache()
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})  # noqa: S102
    finally:
        handler.flush()


def _log(folder: Path) -> str:
    (path,) = folder.glob("*.log")
    return path.read_text(encoding="utf-8")


def _neutral(text: str, folder: Path) -> str:
    import torch  # noqa: PLC0415

    text = re.sub(rf"{re.escape(str(folder))}/\w+/(?=\w+\.py)", "/job/", text)
    for name, neutral in (
        (str(folder), "/job"),
        (str(HERE), "/recordings"),
        (str(Path(torch.__file__).parent), "/python/site-packages/torch"),
        (str(Path(sys.prefix)), "/python"),
        (str(Path(sys.base_prefix)), "/python"),
    ):
        text = text.replace(name, neutral)
    return text


def _write(texts: dict[str, str], out: Path, version: str, chosen: list[str]) -> None:
    """Write the logs; of chosen starts, these alone: the others stay as they are."""
    out.mkdir(parents=True, exist_ok=True)
    for old in () if chosen else out.glob("*.log.gz"):
        old.unlink()
    common = _common_components(texts.values())
    for name, text in texts.items():
        if chosen and name not in chosen:
            continue
        data = "".join(_kept(text, common)).encode("utf-8")
        (out / f"{name}.log.gz").write_bytes(gzip.compress(data, mtime=0))
    about = {
        "torch": version,
        "python": sys.version.split()[0],
        "device": "cpu",
        "command": "python tests/recordings/record_caches.py",
    }
    (out / "recording.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _records(text: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Prefix of the line, its record, and its payload."""
    for part in re.split(r"(?m)^(?=V\d{4} )", text):
        line, _, payload = part.partition("\n")
        prefix, brace, rest = line.partition("{")
        if brace:
            yield prefix, json.loads(brace + rest), payload


def _common_components(texts: Any) -> set[str]:
    """Those that every key of every log has."""
    counts: Counter[str] = Counter()
    keys = 0
    for text in texts:
        for _, record, payload in _records(text):
            if "_cache_" in record.get("artifact", {}).get("name", "") and '"components": [' in payload:
                components = json.loads(payload)["components"]
                keys += bool(components)
                counts.update({component.partition(": ")[0] for component in components})
    return {component for component, count in counts.items() if count == keys}


def _kept(text: str, common: set[str]) -> Iterator[str]:
    for prefix, record, payload in _records(text):
        kind = next(iter(record))
        if kind in {"compilation_metrics", "bwd_compilation_metrics"}:
            record[kind] = _metrics(record[kind])
        kept = _kept_payload(record["artifact"]["name"] if kind == "artifact" else kind, payload, common)
        if kept is not None:
            yield f"{prefix}{json.dumps(record)}\n{kept}"


def _kept_payload(name: str, payload: str, common: set[str]) -> str | None:
    """What is kept of the payload of a record; None: the record is left out."""
    if "_cache_" in name:
        return _cache_payload(payload, common)
    if name == "fx_graph_runnable":
        return "".join(f"\t{line.strip()}\n" for line in payload.split("\n") if "os.environ[" in line)
    if name == "chromium_event":
        return _event_payload(payload)
    if name == "aot_joint_graph":
        return "\t\n"  # that there is one
    return payload if name in _KINDS else None


def _event_payload(payload: str) -> str | None:
    """The start or end of a phase without its data; None for other events."""
    event: dict[str, Any] = json.loads(payload) if _PHASES.search(payload) else {"ph": "i"}
    if event["ph"] not in "BE":
        return None
    event["args"] = {"compile_id": event.get("args", {}).get("compile_id")}
    return f"\t{json.dumps(event)}\n"


def _metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metrics.items() if value is not None and _METRICS.search(key)}
    for dump in ("inductor_config", "compiler_config"):
        settings = json.loads(metrics.get(dump) or "{}")
        kept[dump] = json.dumps({key: settings[key] for key in _SWITCHES if key in settings})
    return kept


def _cache_payload(payload: str, common: set[str]) -> str:
    body = json.loads(payload)
    if body.get("components"):
        body["components"] = [
            factor for factor in body["components"] if factor.partition(": ")[0] not in common
        ]
    return f"\t{json.dumps(body)}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
