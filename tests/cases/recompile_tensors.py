"""Recompilations because a tensor changed: its size, rank, dtype, layout, kind."""

import torch
from torch import nn


def transposed(*shape):
    return torch.randn(*shape).t()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


class Tagged(torch.Tensor):
    pass


def tagged(*shape):
    return torch.randn(*shape).as_subclass(Tagged)


# fuselight: size(f32[4])
# fuselight: size(f32[7])
def size(x):
    return x + 1  # warning: [FL201] "x.size(0) was 4, now 7"


# fuselight: last_size(f32[2, 4])
# fuselight: last_size(f32[2, 5])
def last_size(x):
    return x + 1  # warning: [FL201] "x.size(1) was 4, now 5"


# fuselight: size_of_one(f32[1])
# fuselight: size_of_one(f32[5])
def size_of_one(x):
    return x + 1  # info: [FL201] "x.size(0) was 1, now 5"


# fuselight: rank(f32[4])
# fuselight: rank(f32[4, 4])
def rank(x):
    return x + 1  # warning: [FL201] "x"


# fuselight: dtype(f32[4])
# fuselight: dtype(f64[4])
def dtype(x):
    return x + 1  # warning: [FL201] "float64"


# fuselight: layout(f32[4, 6])
# fuselight: layout(transposed(6, 4))
def layout(x):
    return x + 1  # warning: [FL201] "stride"


# fuselight: needs_gradients(f32[4], no_grad=False)
# fuselight: needs_gradients(leaf(4), no_grad=False)
def needs_gradients(x):
    return x + 1  # warning: [FL201] "requires_grad"


# fuselight: parameter(f32[4])
# fuselight: parameter(nn.Parameter(f32[4], requires_grad=False))
def parameter(x):
    return x + 1  # warning: [FL201] "Parameter"


# fuselight: subclass(f32[4])
# fuselight: subclass(tagged(4))
def subclass(x):
    return x + 1  # warning: [FL201] "Tagged"


# fuselight: conjugate(c64[4])
# fuselight: conjugate(torch.conj(c64[4]))
def conjugate(x):
    return x + 1  # warning: [FL201] "x"


# fuselight: number_for_a_tensor(f32[4])
# fuselight: number_for_a_tensor(3)
def number_for_a_tensor(x):
    return torch.ones(4) + x  # warning: [FL201] "x was a tensor, now 3"


# fuselight: keeps_recompiling(f32[4], dynamic=False)
# fuselight: keeps_recompiling(f32[5], dynamic=False)
# fuselight: keeps_recompiling(f32[6], dynamic=False)
def keeps_recompiling(x):
    return x + 1  # warning: [FL201] "x.size(0)"


# fuselight: same_tensor_twice(f32[4], f32[4])
# fuselight: same_tensor_twice(*[f32[4]] * 2)
def same_tensor_twice(x, y):  # warning: [FL201] "same"
    return x + y


# fuselight: no_longer_the_same(*[f32[4]] * 2)
# fuselight: no_longer_the_same(f32[4], f32[4])
def no_longer_the_same(x, y):
    return x + y  # warning: [FL201] "same"


# fuselight: nearest_of_three(f32[4])
# fuselight: nearest_of_three(f64[4])
# fuselight: nearest_of_three(f32[2, 4])
def nearest_of_three(x):
    return x + 1  # warning: [FL201] "x.dtype was float32, now float64"
    # warning: [FL201] "x.dim() was 1, now 2"


# fuselight: nearest_by_its_layout(f32[2, 4])
# fuselight: nearest_by_its_layout(f64[2, 4])
# fuselight: nearest_by_its_layout(transposed(4, 2))
def nearest_by_its_layout(x):
    return x + 1  # warning: [FL201] "x.dtype was float32, now float64"
    # warning: [FL201] "x.stride(0) was 4, now 1"
