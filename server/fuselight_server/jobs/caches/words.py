"""Names of caches, states and stages as a reader sees them."""

from __future__ import annotations

from fuselight_server.base.formatting import format_count
from fuselight_server.jobs.caches.model import LineStart, StartStage
from fuselight_server.jobs.trace_log.model import CacheName, CacheState

CACHE_NAMES = {
    CacheName.FX_GRAPH: "FX graph cache",
    CacheName.AOTAUTOGRAD: "AOTAutograd cache",
    CacheName.DYNAMO: "Dynamo cache",
    CacheName.PRECOMPILE: "precompile",
    CacheName.AUTOTUNE: "autotuning",
    CacheName.TRITON: "Triton kernels",
    CacheName.PROFILE: "profile of dynamic shapes",
    CacheName.OTHER: "another cache",
}
STATE_NAMES = {
    CacheState.HIT: "hit",
    CacheState.MISS: "miss",
    CacheState.BYPASS: "bypass",
    CacheState.SAVED: "saved",
}
STAGE_NAMES = {
    StartStage.IMPORTS: "imports",
    StartStage.PROGRAM: "code before first compile",
    StartStage.TRACING: "tracing (Dynamo)",
    StartStage.AOTAUTOGRAD: "AOTAutograd",
    StartStage.CODE_GENERATION: "code generation (Inductor)",
    StartStage.COMPILING: "compiling kernels",
    StartStage.AUTOTUNING: "autotuning",
    StartStage.CUDA_GRAPHS: "recording CUDA graphs",
    StartStage.CACHES: "caches",
    StartStage.OTHER: "other phases",
    StartStage.COMPILES: "compiles, all stages",
}


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop; a name of torch or a quote at its start stays as it is."""
    first = text.split(maxsplit=1)[0] if text else ""
    is_plain = first.isalpha()
    capital = text[:1].upper() + text[1:] if is_plain else text
    return capital if capital.endswith((".", "!", "?")) else f"{capital}."


def work_text(line: LineStart) -> str:
    """What a line did in the start: the compiled function, or what is imported. Empty if neither is known."""
    return import_text(line) if line.is_import else line.function or ""


def import_text(line: LineStart) -> str:
    """`imports torch`, `imports transformers and 3 more`; of no line `imports outside of your files`."""
    if not line.modules:
        return "imports outside of your files"
    more = line.module_count - 1
    return f"imports {line.modules[0]}" + (f" and {format_count(more, 'module')} more" if more > 0 else "")
