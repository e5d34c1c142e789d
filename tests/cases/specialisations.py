"""Sizes and numbers that should stay symbolic and were fixed to one value."""

import math

import torch


def marked(*shape):
    x = torch.randn(*shape)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    return x


def must_be_dynamic(*shape):
    x = torch.randn(*shape)
    torch._dynamo.mark_dynamic(x, 0)
    return x


# fuselight: compares_with_a_number(f32[6], dynamic=True)
def compares_with_a_number(x):
    if x.size(0) == 6:  # warning: [FL301] "`x.size(0)` is fixed to 6"
        return x + 1
    return x - 1


# fuselight: takes_it_as_a_number(f32[6], dynamic=True)
def takes_it_as_a_number(x):
    return torch.randn(int(x.size(0)))


# fuselight: loops_over_it(f32[6], dynamic=True)
def loops_over_it(x):
    total = x.sum()
    for i in range(x.size(0)):  # warning: [FL301] "`x.size(0)` is fixed to 6"
        total = total + i
    return total


# fuselight: adds_a_tensor_of_fixed_size(f32[6], dynamic=True)
def adds_a_tensor_of_fixed_size(x):
    return x + torch.ones(6)  # warning: [FL301] "`x.size(0)` is fixed to 6"


# fuselight: marked_and_fixed(marked(6))
def marked_and_fixed(x):
    return x + torch.ones(6)  # warning: [FL301] "`x.size(0)` is fixed to 6"


# fuselight: marked_and_must_not_be_fixed(must_be_dynamic(6))
def marked_and_must_not_be_fixed(x):
    return x + torch.ones(6)  # error: [FL301] "`x.size(0)` is fixed to 6 although it was marked dynamic"


# fuselight: stays_dynamic(must_be_dynamic(6))
def stays_dynamic(x):
    return x + 1


# fuselight: number_fixed_by_a_loop(f32[4], 5, dynamic=True)
def number_fixed_by_a_loop(x, n):
    for _ in range(n):  # info: [FL302] "`n` is fixed to 5"
        x = x + 1
    return x


def scaled(x, base=8.0):
    return x * math.log(base)


# fuselight: default_of_a_helper_is_fixed(f32[4], dynamic=True)
def default_of_a_helper_is_fixed(x):
    return scaled(x)


# fuselight: number_with_two_values(f32[4], 5, dynamic=True)
# fuselight: number_with_two_values(f32[4], 7, dynamic=True)
def number_with_two_values(x, n):
    for _ in range(n):  # warning: [FL201] "n was 5, now 7"
        x = x + 1
    return x
