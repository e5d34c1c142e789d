"""Inductor's freezing where it would come too late: weights become constants of the code of a captured graph.

Torch freezes what Dynamo left in the graph's module, and Dynamo leaves parameters there only if
`torch._inductor.config.freezing` is set when it traces. An option of torch.compile is in force after that; then all
parameters are inputs, nothing is frozen, and CUDA graphs copy every one of them in each call. So the inputs that are
parameters and buffers are put back into the module before Inductor sees the graph.

Invariant: results are those of the tensors that a call brings. Each call compares them with the frozen ones, and their
counts of in-place changes; where they differ, it runs code that was compiled without freezing. So it does after a step
of an optimizer that has one of them: the kernels of `fused=True` change weights without counting it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from fuselight.adapters.torch_api.dynamo import captured_graphs, module_tensors

Say = Callable[[str], None]
"""Reports a sentence to the user."""
Backend = Callable[..., Callable[..., Any]]

FREEZING = "freezing"
_CHANGED = (
    "weights have changed since they were frozen, so the graph is compiled again without freezing. Load the weights "
    "before the first call, or call torch._dynamo.reset() after the change: then the new ones are frozen"
)
_OTHERS = (
    "a call has other weights or buffers than those that were frozen (replaced, or of another module with the same "
    "code), so the graph is also compiled without freezing. Compile the whole model instead of its blocks, or call "
    "torch._dynamo.reset() after the change"
)
_watching: Any = None
"""What torch returned for the hook that watches optimizers; None before the first weights are frozen."""
_count: Callable[[torch.Tensor], int] = operator.attrgetter("_version")


def records_gradients(inputs: Sequence[Any]) -> bool:
    """Whether a call of a graph with these inputs records gradients."""
    return torch.is_grad_enabled() and any(
        isinstance(argument, torch.Tensor) and argument.requires_grad for argument in inputs
    )


class FreezingBackend:
    """A Dynamo backend: `frozen` for graphs whose weights can be constants, else `plain`, and `say` gets the reason.

    `frozen` is Inductor with the option `freezing`, `plain` the same without it.
    """

    def __init__(self, frozen: Backend, plain: Backend, say: Say) -> None:
        self.frozen = frozen
        self.plain = plain
        self.say = say

    @property
    def config(self) -> Mapping[str, Any]:
        """Inductor's options."""
        config: Mapping[str, Any] = getattr(self.frozen, "config", {})
        return config

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo. Raises what the backends raise."""
        del asked
        if module_tensors.is_freezing_set():
            with module_tensors.scalars_in_cache_keys():
                return self.frozen(gm, inputs)  # Dynamo has left the weights in the module
        if records_gradients(inputs):
            self.say(
                "freezing has no effect: the call records gradients, so its weights cannot be constants "
                "(torch.no_grad() around the call would not record any)"
            )
            return self.plain(gm, inputs)
        nodes = captured_graphs.placeholders(gm)
        held = {
            index: None
            for index, (node, value) in enumerate(zip(nodes, inputs, strict=True))
            if module_tensors.is_static(node, value)
        }
        if not held:
            return self.plain(gm, inputs)
        hindrances = (module_tensors.unholdable(gm, nodes[index], inputs[index]) for index in held)
        why = next(filter(None, hindrances), "")
        if why:
            self.say(f"freezing has no effect: it is not possible with {why}")
            return self.plain(gm, inputs)
        return self._freeze(gm, inputs, held)

    def _freeze(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any], held: Mapping[int, None]
    ) -> Callable[..., Any]:
        weights = FrozenWeights([inputs[index] for index in held])
        otherwise = UnfrozenGraph(module_tensors.LaterCompile(gm, inputs), self.plain, self.say)
        others = [index for index in range(len(inputs)) if index not in held]
        copy = module_tensors.copied(gm)  # Dynamo passes what the graph that it captured has as inputs
        nodes = captured_graphs.placeholders(copy)
        for index in held:
            module_tensors.hold(copy, nodes[index], inputs[index])
        copy.recompile()
        with module_tensors.scalars_in_cache_keys(), torch.no_grad():  # Inductor freezes under no_grad alone
            run = self.frozen(copy, [inputs[index] for index in others])
        return _checked(run, weights, _picking(list(held)), _picking(others), otherwise)

    def reset(self) -> None:
        """Free what CUDA graphs hold, as torch._dynamo.reset asks."""
        for function in (self.frozen, self.plain):
            getattr(function, "reset", lambda: None)()


class FrozenWeights:
    """The tensors that a graph was frozen with, and how often each was changed in place by then."""

    watched: ClassVar[weakref.WeakSet[FrozenWeights]] = weakref.WeakSet()
    """Those of all graphs in use, for the hook that torch calls after each step of an optimizer."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.tensors = tuple(tensors)
        self.counted = self.tensors
        """Those that are constants."""
        self.counts = list(map(_count, self.counted))
        self.are_trained = False
        """Whether an optimizer that has one of them has made a step."""
        _watch_optimizers()
        self.watched.add(self)

    def are_changed(self) -> bool:
        """Whether one of the constants may have other values than those it was frozen with."""
        return self.are_trained or list(map(_count, self.counted)) != self.counts

    def see_step(self, trained: AbstractSet[int]) -> None:
        """Take in the step of an optimizer, which has the tensors with these identities."""
        self.are_trained = self.are_trained or any(id(tensor) in trained for tensor in self.counted)

    def leave_out_changed(self) -> None:
        """After the first call: a tensor that has changed by now is changed by the graph itself, and so no constant.

        It is an input of Inductor's code, as with torch's own freezing.
        """
        kept = [
            tensor for tensor, count in zip(self.counted, self.counts, strict=True) if _count(tensor) == count
        ]
        self.counted, self.counts = tuple(kept), list(map(_count, kept))


def _watch_optimizers() -> None:
    """Have every optimizer of this process say when it has made a step."""
    global _watching  # noqa: PLW0603 - hooks are the process's
    if _watching is None:
        _watching = register_optimizer_step_post_hook(_after_step)


def _after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Tell the frozen weights of a step. A compiled one counts its changes, and Dynamo must find nothing here."""
    if torch.compiler.is_compiling():
        return
    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for weights in tuple(FrozenWeights.watched):
        weights.see_step(trained)


class UnfrozenGraph:
    """The same graph for other weights: compiled without freezing at its first call, and reported once a reason."""

    def __init__(self, later: module_tensors.LaterCompile, backend: Backend, say: Say) -> None:
        self._later = later
        self._backend = backend
        self._say = say
        self._reasons: set[str] = set()
        self._run: Callable[..., Any] | None = None

    def __call__(self, why: str, args: Sequence[Any]) -> Any:
        """Run the graph with all of its inputs."""
        if why not in self._reasons:
            self._reasons.add(why)
            self._say(why)
        if self._run is None:
            try:
                self._run = self._later(self._backend)
            except Exception as error:  # noqa: BLE001 - a compiler may raise anything; the captured graph still runs
                self._run = self._later.graph.forward
                self._say(
                    f"the graph could not be compiled again and runs in eager mode: {type(error).__name__}: {error}. "
                    "torch._dynamo.reset() has the next call compile it with the new weights"
                )
        return self._run(*args)


def _checked(
    run: Callable[..., Any],
    weights: FrozenWeights,
    held: Callable[[Sequence[Any]], Sequence[Any]],
    others: Callable[[Sequence[Any]], Sequence[Any]],
    otherwise: UnfrozenGraph,
) -> Callable[..., Any]:
    """`run` for the inputs that `others` picks, as long as those that `held` picks are the unchanged weights."""
    tensors = weights.tensors
    called = changed = False

    def frozen_graph(*args: Any) -> Any:
        nonlocal called, changed
        if not all(map(operator.is_, held(args), tensors)):
            return otherwise(_OTHERS, args)
        if changed or weights.are_changed():
            changed = True
            return otherwise(_CHANGED, args)
        graph = run(*others(args))
        if not called:
            called = True
            weights.leave_out_changed()
        return graph

    return frozen_graph


def _picking(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that picks these positions: operator.itemgetter picks a tuple only from two on."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda values: [values[index] for index in positions]
