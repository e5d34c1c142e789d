"""What Inductor does once in a process, for its first graph.

Invariant: it starts no thread and asks for no GPU, so that a process that forks others may do it.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
import torch.hub
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names


def warm_up() -> None:
    """Have Inductor read its patterns, and Triton hash itself: children inherit both.

    It starts no thread: tqdm, which fx asks even where it shows nothing, would start one.
    """
    bar: Any = vars(torch.hub).get("tqdm")
    unwatched = (
        patched(bar, "monitor_interval", 0) if hasattr(bar, "monitor_interval") else contextlib.nullcontext()
    )
    if "input_device" in inspect.signature(joint_graph.lazy_init).parameters:  # else it would ask for a GPU
        with unwatched:
            joint_graph.lazy_init(torch.device("cpu"))
            for passes in (pre_grad, post_grad):  # theirs are the same for each device
                read_patterns = getattr(passes, "lazy_init", None)
                if read_patterns is not None:
                    read_patterns()
    if not names.is_missing():
        names.warm_up()
