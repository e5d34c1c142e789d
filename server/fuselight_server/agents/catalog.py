"""The tools of the server, in the order in which an agent needs them."""

from __future__ import annotations

from fuselight_server.agents.tool import Tool
from fuselight_server.agents.tools import (
    accuracy,
    check,
    explain,
    memory,
    patches,
    predictions,
    repro,
    timed,
    traces,
    work,
)

TOOLS: tuple[Tool, ...] = (
    check.TARGETS_TOOL,
    check.CHECK,
    explain.EXPLAIN,
    patches.FIX_CANDIDATES,
    patches.VERIFY_PATCH,
    accuracy.ACCURACY,
    repro.REPRO,
    predictions.FORECAST,
    predictions.KERNELS,
    memory.MEMORY,
    timed.BENCHMARK,
    timed.TUNE,
    traces.OPEN_TRACE,
    traces.COMPARE,
    traces.EXPLAIN_CACHE_MISS,
    work.RESULT,
    work.CANCEL,
)
