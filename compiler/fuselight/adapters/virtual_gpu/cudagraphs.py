# ruff: noqa: SLF001 - private names are this package's business
"""Why torch would not replay a graph as a CUDA graph, if CUDA graphs are enabled (`mode="reduce-overhead"`).

Invariant: nothing is recorded or replayed, because there may be no GPU. The checks are those of torch at the first call
of the graph, for inputs that no other CUDA graph made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.cudagraph_utils
import torch._inductor.output_code

from fuselight.adapters.torch_api.patching import patched, wrapped

_PREFIX = "skipping cudagraphs due to "
_LOG = "log_cudagraph_skip_and_bump_counter"


def cudagraphs_asked() -> bool:
    """Whether what is being generated is to be replayed as CUDA graphs."""
    return bool(torch._inductor.config.triton.cudagraphs)


def observing_cudagraphs(tell: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
    """Inside, where graphs are compiled for real, `tell(reason)` is called for each that torch does not replay."""

    def log(real: Callable[..., Any], message: str) -> None:
        tell(message.removeprefix(_PREFIX))
        real(message)

    owner: Any = torch._inductor.output_code
    known = hasattr(owner, _LOG)
    return wrapped(owner, _LOG, log) if known else contextlib.nullcontext()


@contextlib.contextmanager
def watching_cudagraphs(
    tell: Callable[[str], None], broke: Callable[[str, Exception], None]
) -> Iterator[None]:
    """Inside, `tell(reason)` is called for each graph that torch would not replay, once its wrapper is written."""
    output_code: Any = torch._inductor.output_code
    utils: Any = torch._inductor.cudagraph_utils

    def post_compile(_inputs: Any, compiled: Any, cudagraphs: Any, *_rest: Any) -> None:
        try:
            reason = _reason(compiled)
            if reason is not None:
                tell(reason)
                type(cudagraphs).disable(cudagraphs)  # as torch: nor is the backward graph replayed then
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            broke("cudagraphs", error)

    def log(message: str) -> None:
        tell(message.removeprefix(_PREFIX))

    replaced = (
        (output_code, "cudagraph_post_compile", post_compile),
        (output_code, "cudagraph_partition_post_compile", post_compile),
        (output_code, _LOG, log),
        (utils, "check_caching_allocator_for_cudagraphs", lambda: None),  # asks a driver that is not there
    )
    with contextlib.ExitStack() as stack:
        for owner, name, ours in replaced:
            if hasattr(owner, name):
                stack.enter_context(patched(owner, name, ours))
        yield


def _reason(compiled: Any) -> str | None:
    """Why a compiled graph would not be replayed."""
    info = compiled.cudagraph_info
    if info.cudagraph_fail_reasons:
        return str(compiled.disabled_cudagraphs_reason or ", ".join(info.cudagraph_fail_reasons))
    static = set(compiled.fx_kwargs["static_input_idxs"] or ())
    mutated = [index for index in compiled.mutated_input_idxs if index not in static]
    if not mutated:
        return None
    words = torch._inductor.cudagraph_utils.get_mutation_stack_trace(info.placeholders, mutated)
    return str(words).removeprefix(_PREFIX)
