"""Errors that end a call: user exceptions, exits, and errors that only the compiler finds."""

import ctypes
import enum
import importlib.metadata
import os
import sys

import torch
from torch import nn


# fuselight: shapes_do_not_fit(f32[4], f32[3])
# error: [FL501] "the call passes f32[4] and f32[3], and `add` raises RuntimeError"
def shapes_do_not_fit(x, y):
    return x + y


# fuselight: Broken()(f32[4])
class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        raise RuntimeError("no weights here")  # error: [FL401] "no weights here"

    def forward(self, x):
        return x


# fuselight: NeedsAPackage()(f32[4])
class NeedsAPackage(nn.Module):
    def __init__(self):
        super().__init__()
        importlib.metadata.version("no-such-package")  # error: [FL401] "No package metadata was found for no-such"

    def forward(self, x):
        return x


# fuselight: looks_up_what_is_not_there(f32[4])
def looks_up_what_is_not_there(x):  # info: [FL101] "is not compiled"
    return x * {}["missing"]  # error: [FL401] "KeyError"
    # warning: [GB0088] "an exception is raised here while tracing"


# fuselight: exits(f32[4])
def exits(x):
    sys.exit(3)  # error: [FL408] "exit"  # warning: [GB0007] "`sys.exit` is not traced by torch.compile"


# fuselight: EndsTheProcess()(f32[4])
class EndsTheProcess(nn.Module):
    def __init__(self):
        super().__init__()
        os._exit(3)  # error: [FL408] "exit status 3"

    def forward(self, x):
        return x


# fuselight: higher_order_break(f32[4])
def higher_order_break(x):
    return torch.cond(x.sum() > 0, lambda y: print("here") or y + 1, lambda y: y * 1, (x,))
    # error: [FL404] "higher-order operator"


# fuselight: Crashes()(f32[4])
class Crashes(nn.Module):
    def __init__(self):
        super().__init__()
        ctypes.string_at(0)  # error: [FL407] "SIGSEGV"

    def forward(self, x):
        return x


class Mode(enum.Enum):
    FAST = 1


# fuselight: no_such_mode(f32[4])
def no_such_mode(x):  # info(2.11): [FL101] "`no_such_mode` is not compiled: torch skipped it"
    return x * Mode(7).value
    # error: [FL401] "ValueError: 7 is not a valid Mode"
    # warning(2.11): [GB0088] "an exception is raised here while tracing"


# fuselight: finds_no_such_row(i64[4] % 1000)
# error: [FL501] "the call passes i64[4], but `embedding` needs numbers from 0 to 1"
@torch.compile
def finds_no_such_row(i):
    table = torch.ones(2, 4)
    rows = nn.functional.embedding(i, table)
    return rows + 1


# fuselight: asserts(f32[4])
@torch.compile
def asserts(x):
    y = x + 1
    assert x.sum() > 1e9, "too small"  # error: [FL401] "too small"
    return x + y


# fuselight: fails_behind_a_break(f32[4])
@torch.compile
def fails_behind_a_break(x):
    print("here")  # warning: [GB0059] "`print` cannot be traced"
    return picks(x)


def picks(x):
    y = x + 1
    return y[torch.tensor([88])]  # error: [FL401] "index 88"


# fuselight: fails_where_it_breaks(f32[4])
@torch.compile
def fails_where_it_breaks(x):
    y = x.sin()
    z = x.cos().no_such_method()
    # error: [FL401] "no_such_method"
    # warning(2.13, 2.14, 2.15): [GB6270] "Unhandled tensor method"
    # warning(2.11): [GB0081] "Missing attribute when running call_method node"
    return y, z
