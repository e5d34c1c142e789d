"""Breaks of the kinds that the other files have, at other calls."""

import contextvars
import gc
import io
import json
import os
import sys
import threading
import time
import typing

import torch
from torch import nn

MODE = contextvars.ContextVar("mode", default="a")
SCALE = contextvars.ContextVar("scale")
NUMBERS = iter([1, 2])
GENERATOR = torch.Generator()


def double(x):
    return x * 2


# fuselight: opens_a_file(f32[4])
def opens_a_file(x):
    size = open(os.devnull).read()  # warning: [GB0059] "`open` cannot be traced"  # warning: [GB0156] "method"
    return x + len(size)


# fuselight: executes(f32[4])
def executes(x):
    exec("y = 1")  # warning: [GB0059] "`exec` cannot be traced"
    return x + 1


# fuselight: counts_globals(f32[4])
def counts_globals(x):
    return x + len(globals())  # warning: [GB0059] "`globals` cannot be traced"


# fuselight: dumps_json(f32[4])
def dumps_json(x):
    return x + len(json.dumps({"a": 1}))
    # warning(2.13, 2.14, 2.15): [GB0156] "method"
    # warning(2.11): [GB0007] "`Encoder.__new__` is not traced by torch.compile"


# fuselight: collects_garbage(f32[4])
def collects_garbage(x):
    gc.collect()  # warning: [GB0007] "not traced"
    return x + 1


# fuselight: counts_references(f32[4])
def counts_references(x):
    return x + sys.getrefcount(x)  # warning: [GB0007] "not traced"


# fuselight: asks_for_the_thread(f32[4])
def asks_for_the_thread(x):
    return x + len(threading.current_thread().name)  # warning: [GB0007] "not traced"


# fuselight: asks_the_file_system(f32[4])
def asks_the_file_system(x):
    return x + os.path.exists(os.devnull)  # warning: [GB0007] "not traced"


# fuselight: redirects_output(f32[4])
def redirects_output(x):
    buffer = io.StringIO()
    # warning(2.13, 2.14, 2.15): [GB0156] "method"
    # warning(2.11): [GB0007] "`StringIO.__new__` is not traced by torch.compile"
    buffer.write("a")  # warning: [GB0156] "method"
    return x + 1


# fuselight: waits(f32[4])
def waits(x):
    y = x * 2
    time.sleep(0)  # warning: [GB0007] "graph break: `time.sleep` is not traced by torch.compile"
    return y + 1


# fuselight: takes_the_time(f32[4], f64[])
def takes_the_time(x, now):
    return x + now


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


# fuselight: the_larger_by_index(f32[4], f32[4])
def the_larger_by_index(x, y):
    values = [x, y]
    keys = torch.stack([tensor.sum() for tensor in values])
    return torch.stack(values).index_select(0, keys.argmax().reshape(1)).squeeze(0) + 1


# fuselight: the_longer(f32[4], f32[5])
def the_longer(x, y):
    return max([x, y], key=len) + 1  # warning(2.11, 2.13): [GB0193] "graph break: invalid call to builtin op handler"


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


# fuselight: int_of_a_tensor(f32[4])
def int_of_a_tensor(x):
    return x * int(x.sum())  # warning: [GB0124] "Python number"
    #          ^^^^^^^^^^^^


# fuselight: loop_until_a_tensor_says_so(f32[4])
def loop_until_a_tensor_says_so(x):
    while x.sum() < 10:  # warning: [GB0170] "a branch depends on the data of a tensor"
        x = x + 5
    return x


# fuselight: repeats_from_a_tensor(f32[4], i64[4] % 3)
def repeats_from_a_tensor(x, repeats):
    return torch.repeat_interleave(x, repeats)  # warning: [GB0036] "repeat_interleave"


# fuselight: an_addend_that_depends_on_data(f32[4])
def an_addend_that_depends_on_data(x):
    return torch.add(x, 1, alpha=x.sum())  # warning: [GB0033] "converted to Python numbers"


# fuselight: sets_the_seed(f32[4])
def sets_the_seed(x):
    torch.manual_seed(3)  # warning: [GB0007] "not traced"
    return x + torch.rand(4)


# fuselight: uses_a_generator(f32[4])
def uses_a_generator(x):
    return x + torch.rand(4, generator=GENERATOR)
    # warning: [GB0055] "graph break: `GENERATOR` (a `Generator` object) cannot be part of a graph"


# fuselight: makes_a_parameter(f32[4])
def makes_a_parameter(x):
    return nn.Parameter(x + 1) * 2  # warning: [GB0264] "Parameter"


# fuselight: saves(f32[4])
def saves(x):
    torch.save(x, "/dev/null")  # warning: [GB0007] "not traced"
    return x + 1


# run by: make corpora
