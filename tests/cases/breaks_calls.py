"""Where a break is shown if other functions are between it and the compiled one."""

import uuid

import torch


@torch.compiler.disable
def disabled(x):
    return x + 1


@torch.compiler.disable(reason="counts on eager order")
def disabled_for_a_reason(x):
    return x + 1


# fuselight: calls_a_disabled_function(f32[4])
def calls_a_disabled_function(x):
    return disabled(x) * 2  # warning: [GB0098] "calls `disabled`, which is marked torch.compiler.disable"
    #      ^^^^^^^^^^^


# fuselight: calls_one_that_says_why(f32[4])
def calls_one_that_says_why(x):
    return disabled_for_a_reason(x) * 2  # warning: [GB0098] "counts on eager order"


def helper(x):
    y = x + 1
    print("in a helper")  # warning: [GB0059] "`print` cannot be traced"
    return y * 2


def outer_helper(x):
    return helper(x) + 1


# fuselight: breaks_in_a_helper(f32[4])
def breaks_in_a_helper(x):
    return outer_helper(x) * 2


# fuselight: breaks_in_the_standard_library(f32[4])
def breaks_in_the_standard_library(x):
    return x + len(uuid.uuid4().hex)  # warning: [GB0007] "not traced"


def twice(x):
    x = x + 1
    if x.sum() > 0:  # warning: [GB0170] "a branch depends on the data of a tensor"
        x = x + 2
    return x


# fuselight: breaks_twice_at_one_line(f32[4])
def breaks_twice_at_one_line(x):
    return twice(twice(x))


# fuselight: two_breaks_on_one_line(f32[4])
def two_breaks_on_one_line(x):
    return x * x.sum().item() + x.mean().item()  # warning: [GB0124] "`.item()`"  # warning: [GB0124] "`.item()`"
    #          ^^^^^^^^^^^^^^   ^^^^^^^^^^^^^^^


# fuselight: breaks_after_text_that_is_not_ascii(f32[4])
def breaks_after_text_that_is_not_ascii(x):
    return x + len("größe 🙂") * x.sum().item()  # warning: [GB0124] "`.item()`"


# fuselight: decorated(f32[4])
@torch.compile
def decorated(x):
    return x * x.sum().item()  # warning: [GB0124] "`.item()`"


def plain(x):
    return x * x.sum().item()  # warning: [GB0124] "`.item()`"


# fuselight: assigned(f32[4])
assigned = torch.compile(plain, mode="reduce-overhead")
