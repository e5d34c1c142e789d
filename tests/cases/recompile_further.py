"""Recompilations of the kinds that the other files have, by other values."""

import collections
import dataclasses
import enum
import functools

import torch
from torch import nn

Pair = collections.namedtuple("Pair", "left right")


def transposed(*shape):
    return torch.randn(*shape).t()


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    name: str = "a"


# fuselight: pair_for_a_tuple((f32[4], f32[4]))
# fuselight: pair_for_a_tuple(Pair(f32[4], f32[4]))
def pair_for_a_tuple(xs):
    return sum(xs)  # warning: [FL201] "Pair"


# fuselight: value_in_a_dict(f32[4], {"scale": 2})
# fuselight: value_in_a_dict(f32[4], {"scale": 2.5})
def value_in_a_dict(x, config):
    return x * config["scale"]  # warning: [FL201] "config['scale'] was 2, now 2.5"


# fuselight: another_partial(f32[4], functools.partial(torch.add, other=1))
# fuselight: another_partial(f32[4], functools.partial(torch.add, other=2))
def another_partial(x, step):
    return step(x)  # warning: [FL201] "was 1, now 2"


# fuselight: member(f32[4], Mode.FAST)
# fuselight: member(f32[4], Mode.EXACT)
def member(x, mode):
    return x * mode.value  # warning: [FL201] "mode"


# fuselight: field(f32[4], Config())
# fuselight: field(f32[4], Config(name="b"))
def field(x, config):
    return x * 2 if config.name == "a" else x + 1  # warning: [FL201] "config.name was 'a', now 'b'"


# fuselight: dtype_as_an_argument(f32[4], torch.float64)
# fuselight: dtype_as_an_argument(f32[4], torch.float16)
def dtype_as_an_argument(x, dtype):
    return x.to(dtype)  # warning: [FL201] "dtype was torch.float64, now torch.float16"


# fuselight: bounds(f32[4], slice(0, 2))
# fuselight: bounds(f32[4], slice(0, 3))
def bounds(x, part):
    return x[part]  # warning: [FL201] "part.stop was 2, now 3"


# fuselight: another_start(f32[4], range(0, 8))
# fuselight: another_start(f32[4], range(1, 8))
def another_start(x, steps):
    return x + steps.start  # warning: [FL201] "steps.start was 0, now 1"


# fuselight: more_keywords(f32[4])
# fuselight: more_keywords(f32[4], scale=2)
def more_keywords(x, **rest):
    return x + len(rest)  # warning: [FL201] "rest"


# fuselight: several_things_at_once(f32[4], 2, "a")
# fuselight: several_things_at_once(f32[4], 3, "b")
def several_things_at_once(x, n, name):
    if name == "a":  # warning: [FL201] "n was 2, now 3"
        x = x + 1
    return x * n


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


# fuselight: last_size(f32[2, 4])
# fuselight: last_size(f32[2, 5])
def last_size(x):
    return x + 1  # warning: [FL201] "x.size(1) was 4, now 5"


# fuselight: size_of_one(f32[1])
# fuselight: size_of_one(f32[5])
def size_of_one(x):
    return x + 1  # info: [FL201] "x.size(0) was 1, now 5"


# fuselight: needs_gradients(f32[4], no_grad=False)
# fuselight: needs_gradients(leaf(4), no_grad=False)
def needs_gradients(x):
    return x + 1  # warning: [FL201] "requires_grad"


# fuselight: parameter(f32[4])
# fuselight: parameter(nn.Parameter(f32[4], requires_grad=False))
def parameter(x):
    return x + 1  # warning: [FL201] "Parameter"


# fuselight: conjugate(c64[4])
# fuselight: conjugate(torch.conj(c64[4]))
def conjugate(x):
    return x + 1  # warning: [FL201] "x"


# fuselight: keeps_recompiling(f32[4], dynamic=False)
# fuselight: keeps_recompiling(f32[5], dynamic=False)
# fuselight: keeps_recompiling(f32[6], dynamic=False)
def keeps_recompiling(x):
    return x + 1  # warning: [FL201] "x.size(0)"


# fuselight: same_tensor_twice(f32[4], f32[4])
# fuselight: same_tensor_twice(*[f32[4]] * 2)
def same_tensor_twice(x, y):  # warning: [FL201] "same"
    return x + y


# fuselight: nearest_by_its_layout(f32[2, 4])
# fuselight: nearest_by_its_layout(f64[2, 4])
# fuselight: nearest_by_its_layout(transposed(4, 2))
def nearest_by_its_layout(x):
    return x + 1  # warning: [FL201] "x.dtype was float32, now float64"
    # warning: [FL201] "x.stride(0) was 4, now 1"


# fuselight: Scaled()(f32[4])
# fuselight: Scaled()(f32[4])
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1  # warning: [FL201] "recompiled: self.steps was 0, now 1"
        return x / self.steps


# fuselight: varying_number(f32[4], 2)
# fuselight: varying_number(f32[4], 3)
def varying_number(x, n):
    return x * n  # warning: [FL201] "recompiled: n was 2, now 3"


# fuselight: varying_length([f32[4]])
# fuselight: varying_length([f32[4], f32[4]])
def varying_length(xs):
    return sum(xs)  # warning: [FL201] "recompiled: len(xs) was 1, now 2"


# fuselight: varying_keys({"a": f32[4]})
# fuselight: varying_keys({"a": f32[4], "b": f32[4]})
def varying_keys(parts):
    return sum(parts.values())  # warning: [FL201] "recompiled: len(parts) was 1, now 2"


# fuselight: varying_dtype(f32[4])
# fuselight: varying_dtype(f16[4])
def varying_dtype(x):
    return x + 1  # warning: [FL201] "recompiled: x.dtype was float32, now float16"


# fuselight: another_lambda(f32[4], make(1))
# fuselight: another_lambda(f32[4], make(2))
def another_lambda(x, step):
    return step(x)


def make(scale):
    return lambda x: x * scale  # warning: [FL201] "recompiled: scale was 1, now 2"


# fuselight: two_sizes(f32[4], f32[4])
# fuselight: two_sizes(f32[5], f32[5])
def two_sizes(a, b):
    return a + b  # warning: [FL201] "recompiled: a.size(0) was 4, now 5"


# run by: make corpora
