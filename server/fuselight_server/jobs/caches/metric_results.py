"""Results of caches that torch records only as numbers in the metrics of a compile.

These are remote caches, Triton, autotuning, and caches that are switched off.
Invariant: a field that the metrics lack gives no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight_server.jobs.caches.model import CacheCause, CacheResult, CauseKind, Cure
from fuselight_server.jobs.trace_log.model import (
    CacheName,
    CacheState,
    CompileMetrics,
    LoggedCompile,
    ProcessLog,
)
from fuselight_server.jobs.trace_log.payloads import read_all_metrics

_REMOTE = (
    (CacheName.FX_GRAPH, "inductor_fx_remote_cache"),
    (CacheName.AOTAUTOGRAD, "aotautograd_remote_cache"),
)
_SWITCHES = (
    ("torch.compiler.config.force_disable_caches", True, "TORCHINDUCTOR_FORCE_DISABLE_CACHES"),
    ("torch._inductor.config.fx_graph_cache", False, "TORCHINDUCTOR_FX_GRAPH_CACHE"),
)


def results_of_metrics(process: ProcessLog) -> Iterator[CacheResult]:
    """The results that the metrics of the compiles of a process record. Raises LogError."""
    recorded = {str(event.compile_id) for event in process.cache_events if event.cache is CacheName.FX_GRAPH}
    compiles = {
        metrics.head: (compiled, metrics)
        for compiled in process.compiles
        for attempt in compiled.attempts
        for metrics in attempt.metrics
    }
    for head, fields in read_all_metrics(compiles):
        compiled, metrics = compiles[head]
        yield from _remote(process, compiled, fields)
        yield from _triton(process, compiled, fields)
        yield from _autotuning(process, compiled, fields)
        if str(compiled.id) not in recorded:
            yield from _disabled(process, compiled, metrics, fields)


def _row(
    process: ProcessLog,
    compiled: LoggedCompile,
    cache: CacheName,
    state: CacheState,
    *,
    is_remote: bool | None = None,
    count: int = 1,
    lost_seconds: float | None = None,
    causes: tuple[CacheCause, ...] = (),
) -> CacheResult:
    return CacheResult(
        cache=cache,
        state=state,
        compile_id=compiled.id,
        rank=process.rank,
        file=process.file,
        function=compiled.function,
        location=compiled.location,
        key=None,
        is_remote=is_remote,
        count=count,
        saved_seconds=None,
        lost_seconds=lost_seconds,
        causes=causes,
    )


def _remote(process: ProcessLog, compiled: LoggedCompile, fields: Mapping[str, Any]) -> Iterator[CacheResult]:
    for cache, prefix in _REMOTE:
        for state in (CacheState.HIT, CacheState.MISS):
            count = _count(fields.get(f"{prefix}_{state.value}_count"))
            if count:
                yield _row(process, compiled, cache, state, is_remote=True, count=count)


def _triton(process: ProcessLog, compiled: LoggedCompile, fields: Mapping[str, Any]) -> Iterator[CacheResult]:
    """Kernels that Triton compiled; only their list counts, because torch times the stage without kernels, too."""
    kernels = fields.get("triton_kernel_compile_times_us")
    try:
        names = parse_json(kernels) if isinstance(kernels, str) else kernels
    except (ValueError, RecursionError):
        names = None
    if isinstance(names, list) and names:
        lost = _seconds(fields.get("triton_compile_time_us"))
        yield _row(process, compiled, CacheName.TRITON, CacheState.MISS, count=len(names), lost_seconds=lost)
    elif bundles := _count(fields.get("num_triton_bundles")):
        yield _row(process, compiled, CacheName.TRITON, CacheState.HIT, count=bundles)


def _autotuning(
    process: ProcessLog, compiled: LoggedCompile, fields: Mapping[str, Any]
) -> Iterator[CacheResult]:
    """Kernels that were measured: none of their results was cached."""
    names = ("compile_time_autotune_time_us", "runtime_triton_autotune_time_us")
    seconds = [value for name in names if (value := _seconds(fields.get(name)))]
    if seconds:
        yield _row(process, compiled, CacheName.AUTOTUNE, CacheState.MISS, lost_seconds=sum(seconds))


def _disabled(
    process: ProcessLog, compiled: LoggedCompile, metrics: CompileMetrics, fields: Mapping[str, Any]
) -> Iterator[CacheResult]:
    """A compile by Inductor without a record of its cache, because a setting switches it off."""
    if not metrics.inductor_seconds:
        return
    settings = _settings(fields.get("inductor_config")) | _settings(fields.get("compiler_config"))
    for name, off, variable in _SWITCHES:
        if settings.get(name.rpartition(".")[2]) is off:
            cause = CacheCause(
                CauseKind.DISABLED,
                f"`{name} = {off}` switches the caches of Inductor off",
                cure=Cure(f"Set `{name} = {not off}`, or remove {variable}.", setting=name, value=not off),
            )
            yield _row(
                process,
                compiled,
                CacheName.FX_GRAPH,
                CacheState.BYPASS,
                lost_seconds=metrics.inductor_seconds,
                causes=(cause,),
            )
            return


def _settings(dump: object) -> dict[str, Any]:
    try:
        settings = parse_json(dump) if isinstance(dump, str) else None
    except (ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _seconds(value: object) -> float | None:
    return value / 1e6 if type(value) in {int, float} and value > 0 else None  # type: ignore[operator]
