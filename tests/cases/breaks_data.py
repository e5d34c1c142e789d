"""Breaks where Python needs the value of a tensor."""

import torch
import torch.nn.functional as F

BLOCKS = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))


# fuselight: item(f32[4])
def item(x):
    return x * x.sum().item()  # warning: [GB0124] "`.item()` converts a tensor to a Python number"
    #          ^^^^^^^^^^^^^^


# fuselight: branch_on_a_tensor(f32[4])
def branch_on_a_tensor(x):
    if x.sum() > 0:  # warning: [GB0170] "a branch depends on the data of a tensor"
    #  ^^^^^^^^^^^
        return x + 1
    return x - 1


# fuselight: assert_with_a_message_that_is_no_string(f32[4])
def assert_with_a_message_that_is_no_string(x):
    assert x.sum() > -1000, x.shape  # warning: [GB0170] "a branch depends on the data of a tensor"
    return x + 1


# fuselight: nonzero(f32[4])
def nonzero(x):
    return x.nonzero() + 1  # warning: [GB0036] "shape of the result"
    #      ^^^^^^^^^^^


# fuselight: boolean_mask(f32[4])
def boolean_mask(x):
    return x[x > 0] * 2  # warning: [GB0036] "the shape of `x[x > 0]` depends"
    #      ^^^^^^^^


# fuselight: equal_gives_a_bool(f32[4], f32[4])
def equal_gives_a_bool(x, y):
    return x + y if torch.equal(x, y) else x  # warning: [GB0033] "returns a Python number"
    #               ^^^^^^^^^^^^^^^^^


# fuselight: list_of_integers(i64[4] % 8)
def list_of_integers(x):
    first, *_ = x.tolist()  # warning: [GB0033] "converted to Python numbers"
    return x * first


# fuselight: list_of_floats(f32[4])
def list_of_floats(x):
    values = x.tolist()  # warning: [GB0109] "does not hold integers"
    return x * len(values)


# fuselight: one_hot_without_a_number_of_classes(i64[4] % 3)
def one_hot_without_a_number_of_classes(x):
    return F.one_hot(x) + 1  # warning: [GB0246] "one_hot"


# fuselight: slice_up_to_a_tensor(f32[8], i64[] % 8)
def slice_up_to_a_tensor(x, n):  # info: [FL101] "is not compiled"
    return x[:n] * 2  # warning: [GB0124] "Python number"


# fuselight: sort_by_data([f32[4], f32[4]])
def sort_by_data(xs):
    first, *_ = sorted(xs, key=lambda x: x.sum())  # warning: [GB0207] "sort by a key"
    return first + 1


# fuselight: returns_from_a_loop_over_modules(f32[4])
def returns_from_a_loop_over_modules(x):  # info: [FL101] "is not compiled"
    for name, block in zip("ab", BLOCKS, strict=True):
        x = block(x)
        if x.max() > len(name):  # warning: [GB0170] "a branch depends on the data of a tensor"
            return x
    return x
