"""Breaks by what a graph cannot hold: clocks, context variables, bytes, generators of libraries, hooks, `.data`."""

import contextvars
import time
import typing
from importlib.metadata._itertools import unique_everseen

import torch
from torch import nn

MODE = contextvars.ContextVar("mode", default="a")
SCALE = contextvars.ContextVar("scale")
WORDS = unique_everseen(["a", "b", "a"])
NUMBERS = iter([1, 2])


def double(x):
    return x * 2


# fuselight: waits(f32[4])
def waits(x):
    y = x * 2
    time.sleep(0)  # warning: [GB0007] "graph break: `time.sleep` is not traced by torch.compile"
    return y + 1


# fuselight: reads_a_counter(f32[4])
def reads_a_counter(x):
    return x + time.perf_counter_ns()
    # warning(2.11, 2.13, 2.14): [GB0007] "graph break: `time.perf_counter_ns` is not traced by torch.compile"
    # warning(2.15): [GB9193] "graph break: `time.perf_counter_ns()` is not traced by torch.compile"


# fuselight: takes_the_time(f32[4], f64[])
def takes_the_time(x, now):
    return x + now


# fuselight: disables_a_function(f32[4])
def disables_a_function(x):
    eager = torch.compiler.disable(double)
    # warning(2.11, 2.13): [GB0007] "graph break: `disable` is not traced by torch.compile"
    # warning(2.14, 2.15): [GB0377] "graph break: `torch.compiler.disable()` is called in the compiled region"
    return eager(x) + 1  # warning: [GB0098] "graph break: calls `double`, which is marked torch.compiler.disable"


# fuselight: disables_a_function_by_its_other_name(f32[4])
def disables_a_function_by_its_other_name(x):
    eager = torch._dynamo.disable(double)
    # warning(2.11, 2.13): [GB0007] "graph break: `disable` is not traced by torch.compile"
    # warning(2.14, 2.15): [GB0376] "graph break: `torch._dynamo.disable()` is called in the compiled region"
    return eager(x) + 1  # warning: [GB0098] "graph break: calls `double`, which is marked torch.compiler.disable"


# fuselight: sets_a_context_variable(f32[4])
def sets_a_context_variable(x):
    y = x * 2
    MODE.set("b")
    # warning(2.11, 2.13): [GB0156] "graph break: the method `set` cannot be traced"
    # warning(2.14, 2.15): [GB6815] "graph break: a ContextVar is changed in the compiled region"
    return y + 1


# fuselight: reads_a_context_variable(f32[4])
def reads_a_context_variable(x):
    return x * len(SCALE.get([1, 2]))
    # warning(2.11, 2.13): [GB0156] "graph break: the method `get` cannot be traced"
    # warning(2.14, 2.15): [GB6066] "graph break: the default of `ContextVar.get()` is not a constant"


# fuselight: reads_a_context_variable_without_a_list(f32[4])
def reads_a_context_variable_without_a_list(x):
    scale = SCALE.get(None)  # warning(2.11, 2.13): [GB0156] "graph break: the method `get` cannot be traced"
    return x * (2 if scale is None else len(scale))


# fuselight: as_many_bytes(f32[4], i64[])
def as_many_bytes(x, count):
    return x + len(bytes(count.abs() % 4))
    # warning(2.11, 2.13, 2.14): [GB0059] "graph break: `bytes` cannot be traced"
    # warning(2.15): [GB9890] "graph break: `bytes()` with values known only at run time"


# fuselight: as_many_bytes_that_change(f32[4], f32[5], dynamic=True)
def as_many_bytes_that_change(x, y):
    return x + len(bytearray(y.shape[0]))
    # warning(2.13): [GB6012] "graph break: `len()` of this object cannot be traced"
    # warning(2.11, 2.13, 2.14): [GB0059] "graph break: `bytearray` cannot be traced"
    # warning(2.14): [GB9493] "graph break: `__len__` of this object is written in C and cannot be traced"
    # warning(2.11): [GB0156] "graph break: the method `__len__` cannot be traced"
    # warning(2.15): [GB3837] "graph break: `bytearray()` of this object cannot be traced"


# fuselight: the_larger(f32[4], f32[4])
def the_larger(x, y):
    return max([x, y], key=lambda tensor: tensor.sum()) + 1
    # warning(2.11, 2.13): [GB0193] "graph break: invalid call to builtin op handler"
    # warning(2.14, 2.15): [GB5687] "graph break: `min` or `max` by a key known only at run time"


# fuselight: the_larger_by_index(f32[4], f32[4])
def the_larger_by_index(x, y):
    values = [x, y]
    keys = torch.stack([tensor.sum() for tensor in values])
    return torch.stack(values).index_select(0, keys.argmax().reshape(1)).squeeze(0) + 1


# fuselight: the_longer(f32[4], f32[5])
def the_longer(x, y):
    return max([x, y], key=len) + 1  # warning(2.11, 2.13): [GB0193] "graph break: invalid call to builtin op handler"


# fuselight: takes_another_shape(f32[4])
def takes_another_shape(x):
    weight = x.detach().requires_grad_()
    # warning(2.13, 2.14, 2.15): [GB8985] "graph break: a leaf tensor created by `requires_grad_()` leaves the compiled region"
    # warning(2.11): [GB0125] "graph break: `requires_grad_()` cannot be traced here"
    weight.data = torch.zeros(5)
    # warning(2.13, 2.14): [GB0056] "graph break: `.data` of a tensor created in the compiled region is assigned"
    # warning(2.15): [GB6602] "graph break: `.data` is assigned a tensor of a different shape"
    return weight.sum() + 1


# fuselight: Hooked()(f32[4])
class Hooked(nn.Module):
    def forward(self, x):
        leaf = x.detach().requires_grad_()
        # warning(2.11): [GB0125] "graph break: `requires_grad_()` cannot be traced here"
        # warning(2.15): [GB8985] "graph break: a leaf tensor created by `requires_grad_()` leaves the compiled region"
        leaf.register_post_accumulate_grad_hook(lambda tensor: None)
        # warning(2.15): [GB5821] "graph break: a post-accumulate hook is registered on a tensor of the compiled region"
        return (leaf * 2).sum()


# fuselight: asks_a_protocol(f32[4])
def asks_a_protocol(x):
    return x * 2 if isinstance(x, typing.SupportsFloat) else x
    # warning(2.14, 2.15): [GB2736] "graph break: `isinstance()` of a tensor calls a check that is not traced"


# fuselight: asks_for_a_tensor(f32[4])
def asks_for_a_tensor(x):
    return x * 2 if torch.is_tensor(x) else x


# fuselight: reads_a_generator(f32[4])
def reads_a_generator(x):  # info: [FL101] "`reads_a_generator` is not compiled: torch skipped it"
    return x + sum(len(word) for word in WORDS)
    # info: [FL103] "in `reads_a_generator` is not compiled"
    # warning(2.13): [GB0811] "graph break: this object cannot be iterated while tracing"
    # warning(2.14, 2.15): [GB7151] "graph break: a generator of a library cannot be traced"
    # warning(2.11): [GB0253] "graph break: this method of a generator cannot be traced"


# fuselight: reads_an_iterator(f32[4])
def reads_an_iterator(x):  # info: [FL101] "`reads_an_iterator` is not compiled: torch skipped it"
    for number in NUMBERS:
    # warning(2.13): [GB0811] "graph break: this object cannot be iterated while tracing"
    # warning(2.14, 2.15): [GB9493] "graph break: `__iter__` of this object is written in C and cannot be traced"
    # warning(2.11): [GB0156] "graph break: the method `__iter__` cannot be traced"
        x = x + number
    return x


# fuselight: an_address(f32[4])
def an_address(x):  # info(2.11, 2.15): [FL101] "`an_address` is not compiled: torch skipped it"
    return x * 2 if x.data_ptr() else x
    # warning(2.11): [GB0170] "graph break: a branch depends on the data of a tensor"
    # warning(2.15): [GB9118] "graph break: the address of a tensor is tested for zero"
