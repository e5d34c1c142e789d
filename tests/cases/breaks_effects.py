"""Breaks by what a graph cannot hold: clocks, context variables, generators of libraries, `.data`."""

import contextvars
import time
from importlib.metadata._itertools import unique_everseen

import torch

SCALE = contextvars.ContextVar("scale")
WORDS = unique_everseen(["a", "b", "a"])


def double(x):
    return x * 2


# fuselight: reads_a_counter(f32[4])
def reads_a_counter(x):
    return x + time.perf_counter_ns()
    # warning(2.11, 2.13, 2.14): [GB0007] "graph break: `time.perf_counter_ns` is not traced by torch.compile"
    # warning(2.15): [GB9193] "graph break: `time.perf_counter_ns()` is not traced by torch.compile"


# fuselight: disables_a_function(f32[4])
def disables_a_function(x):
    eager = torch.compiler.disable(double)
    # warning(2.11, 2.13): [GB0007] "graph break: `disable` is not traced by torch.compile"
    # warning(2.14, 2.15): [GB0377] "graph break: `torch.compiler.disable()` is called in the compiled region"
    return eager(x) + 1  # warning: [GB0098] "graph break: calls `double`, which is marked torch.compiler.disable"


# fuselight: reads_a_context_variable(f32[4])
def reads_a_context_variable(x):
    return x * len(SCALE.get([1, 2]))
    # warning(2.11, 2.13): [GB0156] "graph break: the method `get` cannot be traced"
    # warning(2.14, 2.15): [GB6066] "graph break: the default of `ContextVar.get()` is not a constant"


# fuselight: the_larger(f32[4], f32[4])
def the_larger(x, y):
    return max([x, y], key=lambda tensor: tensor.sum()) + 1
    # warning(2.11, 2.13): [GB0193] "graph break: invalid call to builtin op handler"
    # warning(2.14, 2.15): [GB5687] "graph break: `min` or `max` by a key known only at run time"


# fuselight: takes_another_shape(f32[4])
def takes_another_shape(x):
    weight = x.detach().requires_grad_()
    # warning(2.13, 2.14, 2.15): [GB8985] "graph break: a leaf tensor created by `requires_grad_()` leaves the compiled region"
    # warning(2.11): [GB0125] "graph break: `requires_grad_()` cannot be traced here"
    weight.data = torch.zeros(5)
    # warning(2.13, 2.14): [GB0056] "graph break: `.data` of a tensor created in the compiled region is assigned"
    # warning(2.15): [GB6602] "graph break: `.data` is assigned a tensor of a different shape"
    return weight.sum() + 1


# fuselight: reads_a_generator(f32[4])
def reads_a_generator(x):  # info: [FL101] "`reads_a_generator` is not compiled: torch skipped it"
    return x + sum(len(word) for word in WORDS)
    # info: [FL103] "in `reads_a_generator` is not compiled"
    # warning(2.13): [GB0811] "graph break: this object cannot be iterated while tracing"
    # warning(2.14, 2.15): [GB7151] "graph break: a generator of a library cannot be traced"
    # warning(2.11): [GB0253] "graph break: this method of a generator cannot be traced"
