"""Hears of the steps of a program: modules that are built or converted, backward passes, steps of optimizers.

Invariant: every hook is removed when the block ends. None is called by a module's forward, which torch.compile traces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from fuselight.adapters.torch_api.patching import wrapped


@dataclass(frozen=True)
class ProgramHooks:
    """What is called."""

    module_changed: Callable[[torch.nn.Module, torch.Tensor | None], None]
    """A module, and the tensor that becomes its parameter or buffer; None after a conversion of all of them."""
    backward_begins: Callable[[list[torch.Tensor]], None]
    """With the tensors whose gradients are computed."""
    backward_ended: Callable[[], None]
    step_begins: Callable[[torch.optim.Optimizer], None]
    step_ended: Callable[[torch.optim.Optimizer], None]

    @contextlib.contextmanager
    def hearing(self) -> Iterator[None]:
        """Call them inside."""

        def backward(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
            given = tree_leaves([args[:1], named.get("tensors")])
            self.backward_begins([value for value in given if isinstance(value, torch.Tensor)])
            result = real(*args, **named)
            self.backward_ended()
            return result

        def convert(real: Callable[..., Any], module: torch.nn.Module, *args: Any, **named: Any) -> Any:
            result = real(module, *args, **named)
            self.module_changed(module, None)
            return result

        handles: list[Any] = [
            register_module_parameter_registration_hook(
                lambda owner, _, new: self.module_changed(owner, new)
            ),
            register_module_buffer_registration_hook(lambda owner, _, new: self.module_changed(owner, new)),
            register_optimizer_step_pre_hook(lambda optimizer, *_: self.step_begins(optimizer)),
            register_optimizer_step_post_hook(lambda optimizer, *_: self.step_ended(optimizer)),
        ]
        try:
            with (
                wrapped(torch.autograd, "backward", backward),
                wrapped(torch.nn.Module, "_apply", convert),
            ):
                yield
        finally:
            for handle in handles:
                handle.remove()
