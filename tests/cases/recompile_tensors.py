"""Recompilations because a tensor changed: its size, rank, dtype, layout, kind."""

import torch


def transposed(*shape):
    return torch.randn(*shape).t()


class Tagged(torch.Tensor):
    pass


def tagged(*shape):
    return torch.randn(*shape).as_subclass(Tagged)


# fuselight: size(f32[4])
# fuselight: size(f32[7])
def size(x):
    return x + 1  # warning: [FL201] "x.size(0) was 4, now 7"


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


# fuselight: subclass(f32[4])
# fuselight: subclass(tagged(4))
def subclass(x):
    return x + 1  # warning: [FL201] "Tagged"


# fuselight: number_for_a_tensor(f32[4])
# fuselight: number_for_a_tensor(3)
def number_for_a_tensor(x):
    return torch.ones(4) + x  # warning: [FL201] "x was a tensor, now 3"


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
