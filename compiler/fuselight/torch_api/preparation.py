# ruff: noqa: SLF001 - private names are this package's business
"""Prepares this process for a run.

Invariant: `warm_up` removes everything that it compiled.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
import torch._dynamo

from fuselight.torch_api import devices


def warm_up() -> None:
    """Trace one tiny function, so that what Dynamo loads at its first frame is loaded in this process."""

    def tiny(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    with devices.unseen():
        torch.compile(tiny, backend="eager")(torch.ones(2))
        torch._dynamo.reset()


def fake_tensors() -> contextlib.AbstractContextManager[Any]:
    """Make tensors without data while entered; tensors that exist already are taken as they are."""
    fakes = importlib.import_module("torch._subclasses.fake_tensor")
    mode: contextlib.AbstractContextManager[Any] = fakes.FakeTensorMode(allow_non_fake_inputs=True)
    return mode


def compile_with_all_workers() -> None:
    """Have Inductor compile with as many processes as it takes in the user's own program; the host holds it to one."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.compile_threads = config.decide_compile_threads()
