"""Directives that cannot be used, targets without inputs, and ignores that silence nothing."""

import torch
from torch import nn

WIDTH = 4


# fuselight: unclosed(f32[4]
# error: [FL501] "never closed"
def unclosed(x):
    return x + 1


# fuselight: unknown_dtype(g32[4])
# error: [FL501] "`g32[4]` is not a tensor: write `f32[4]`"
#                          ^^^^^^
def unknown_dtype(x):
    return x + 1


# fuselight: unknown_name(f32[HEIGHT])
# error: [FL501] "the file has no name `HEIGHT`"
#                             ^^^^^^
def unknown_name(x):
    return x + 1


# fuselight: size_that_is_no_number(f32[4.5])
# error: [FL501] "whole number"
#                                       ^^^
def size_that_is_no_number(x):
    return x + 1


# fuselight: f32[4]
# error: [FL501] "a call"
def no_call(x):
    return x + 1


# fuselight: too_few_arguments(f32[4])
# error: [FL501] "y"
def too_few_arguments(x, y):
    return x + y


# fuselight: wrong_option(f32[4], train="yes")
# error: [FL501] "train"
def wrong_option(x):
    return x + 1


# fuselight: a_name_of_the_file(f32[WIDTH])
def a_name_of_the_file(x):
    return x * x.sum().item()  # warning: [GB0124] "`.item()`"


# fuselight: words_that_are_not_ascii({"größe": f32[HEIGHT]})
# error: [FL501] "HEIGHT"
def words_that_are_not_ascii(parts):
    return parts["größe"] + 1


@torch.compile
def nobody_calls_it(x):  # info: [FL502] "no inputs are known for nobody_calls_it"
    return x + 1


model = torch.compile(nn.Linear(4, 4))  # info: [FL502] "no inputs are known for model"


# fuselight: silenced(f32[4])
def silenced(x):
    print("known")  # fuselight: ignore[GB0059]
    return x + 1


# fuselight: silences_nothing(f32[4])
def silences_nothing(x):
    return x + 1  # fuselight: ignore[GB0059]  # warning: [FL503] "unused ignore comment"


# fuselight: silences_something_else(f32[4])
def silences_something_else(x):
    print("known")  # fuselight: ignore[GB0124]  # warning: [GB0059] "`print` cannot be traced"
    # warning: [FL503] "unused ignore comment"
    return x + 1


# fuselight: silences_what_kernels_find(c64[4])
def silences_what_kernels_find(x):
    return x.abs()  # fuselight: ignore[FL701]
