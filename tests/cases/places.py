"""The line and the columns of code after a break, and of calls over several lines."""

import torch


# fuselight: chain_behind_a_break(f32[4, 8])
def chain_behind_a_break(x):
    print("first")  # warning: [GB0059] "`print` cannot be traced"
    y = (
        x.float()
        .mul(2)
        .add(1)
        .relu()
    )
    n = y.sum().item()  # warning: [GB0124] "Python number"
    #   ^^^^^^^^^^^^^^
    return y * n


# fuselight: chain_that_breaks_twice(f32[4])
def chain_that_breaks_twice(x):
    return (
        torch.nonzero(  # warning: [GB0036] "depends on the tensor's data"
            x.sin()
        )
        .float()
        .sum()
        .item()  # warning: [GB0124] "Python number"
    )


# fuselight: call_over_lines(f32[4, 8])
def call_over_lines(x):
    y = torch.nonzero(  # warning: [GB0036] "depends on the tensor's data"
        x
    )
    return y.float()


# fuselight: chain_in_two_functions(f32[4])
def chain_in_two_functions(x):
    y = (
        x.sin()
        .cos()
    )
    y = tail(
        y
    )
    return y


def tail(y):
    y = (
        y.exp()
        .neg()
        .abs()
    )
    print("before")  # warning: [GB0059] "`print` cannot be traced"
    z = (
        y.exp()
        .neg()
        .abs()
    )
    print("after")  # warning: [GB0059] "`print` cannot be traced"
    return z
