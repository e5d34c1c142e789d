# ruff: noqa: SLF001 - private names are this package's business
"""Reports each function that Dynamo begins to trace, as a frame of its own or inlined, and the settings in force.

Invariant: an observer changes nothing. An exception of `heard` is dropped, since the user's compile must go on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
import torch._dynamo.symbolic_convert

from fuselight.adapters.torch_api.dynamo import frames, variables
from fuselight.adapters.torch_api.patching import wrapped

MARK = "_dynamo_dynamic_indices"
"""The attribute of a tensor in which `mark_dynamic` keeps its dimensions."""
TRANSLATORS = ("InstructionTranslator", "InliningInstructionTranslator")
"""The classes that trace a frame and an inlined function."""


@dataclass(frozen=True)
class TracedFunction:
    """A function as Dynamo begins to trace it."""

    code: CodeType
    is_inlined: bool
    fullgraph: bool
    config: Mapping[str, Any]
    """All settings of `torch._dynamo.config` in force, by name."""
    symbolic: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Parameters of an inlined function to their dimensions of symbolic size."""


@contextlib.contextmanager
def listen_to_traces(heard: Callable[[TracedFunction], None]) -> Iterator[None]:
    """Call `heard` for each function that Dynamo begins to trace inside the block, except for resume functions."""
    configs: list[tuple[Any, dict[str, Any]]] = [(None, {})]

    def begin(real: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        with contextlib.suppress(Exception):  # as this module says
            if frames.original_code(self.f_code) is not self.f_code:
                return
            if configs[0][0] is not self.output:  # read once for each frame that is compiled
                configs[0] = self.output, dynamo_config()
            is_inlined = getattr(self, "parent", None) is not None
            symbolic = _symbolic_sizes(self) if is_inlined else {}
            heard(TracedFunction(self.f_code, is_inlined, bool(self.one_graph), configs[0][1], symbolic))

    translators = torch._dynamo.symbolic_convert
    with contextlib.ExitStack() as stack:
        for name in TRANSLATORS:
            if hasattr(translators, name):  # without it, no function is known to have been traced
                stack.enter_context(wrapped(getattr(translators, name), "__init__", begin))
        yield


def dynamo_config() -> dict[str, Any]:
    """Return all settings of `torch._dynamo.config`, by name."""
    config: Any = torch._dynamo.config
    entries: Mapping[str, Any] = getattr(config, "_config", {})
    return {
        name: getattr(config, name, None)
        for name, entry in entries.items()
        if not name.startswith("_")
        and getattr(entry, "alias", None) is None
        and not getattr(entry, "deprecated", False)
    }


def with_dynamo_config(values: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    """Inside, the settings of `torch._dynamo.config` have these values."""
    config: Any = torch._dynamo.config
    now = dynamo_config()
    changed = {name: value for name, value in values.items() if name in now and now[name] != value}
    context: contextlib.AbstractContextManager[Any] = (
        config.patch(changed) if changed else contextlib.nullcontext()
    )
    return context


def forget_compiled() -> None:
    """Drop all compiled code, so that a function is traced again when it is called."""
    torch._dynamo.reset()


def is_marked_dynamic(tensor: torch.Tensor) -> bool:
    """Whether the user promised with `mark_dynamic` that a size varies."""
    return bool(getattr(tensor, MARK, None))


def mark_dynamic(tensor: torch.Tensor, dimensions: tuple[int, ...]) -> None:
    """Have these dimensions be symbolic when Dynamo next sees the tensor as an input; an observed size may fix them."""
    for dimension in dimensions:
        if dimension < tensor.dim() and tensor.shape[dimension] > 1:
            torch._dynamo.maybe_mark_dynamic(tensor, dimension)


def promise_dynamic(tensor: torch.Tensor, dimension: int) -> None:
    """Mark a dimension as a program does with `torch._dynamo.mark_dynamic`: code that fixes it is an error."""
    torch._dynamo.mark_dynamic(tensor, dimension)


def promise_any_size(tensor: torch.Tensor, dimension: int) -> None:
    """Mark a dimension with `torch._dynamo.decorators.mark_unbacked`: code that needs to know the size is an error."""
    torch._dynamo.decorators.mark_unbacked(tensor, dimension)


def _symbolic_sizes(translator: Any) -> dict[str, tuple[int, ...]]:
    code, sizes = translator.f_code, {}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        variable = variables.resolved(translator.symbolic_locals.get(name))
        if not isinstance(variable, torch._dynamo.variables.TensorVariable):
            continue
        value = variable.as_proxy().node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            symbolic = tuple(index for index, size in enumerate(value.shape) if type(size) is not int)
            if symbolic:
                sizes[name] = symbolic
    return sizes
