"""Fixes that move an effect out of the compiled code, with the text after."""

import threading
import time

import torch
from torch import nn

LOCK = threading.Lock()


# fuselight: measured(f32[4])
@torch.compile
def measured(x):
    """Double x."""
    start = time.perf_counter()
    # fix: [GB0007] hoist "Read the clock outside of the compiled code"
    # = 2 -> 1 graphs, changes behavior: the measured time covers what `return` computes, too
    # -|@torch.compile
    #  |    start = time.perf_counter()
    # +|    result = _compiled_measured(x)
    # +|    print("took long:", time.perf_counter() - start > 60)
    # +|    return result
    #  |
    # +|
    # +|@torch.compile
    # +|def _compiled_measured(x):
    # -|    print("took long:", time.perf_counter() - start > 60)
    # fix: [GB0007] is_compiling "Skip `time.perf_counter` in compiled code"
    # = 2 -> 1 graphs, changes behavior: compiled calls measure no time, and do not print, log or
    # = warn about it
    # -|    start = time.perf_counter()
    # +|    if not torch.compiler.is_compiling():
    # +|        start = time.perf_counter()
    # -|    print("took long:", time.perf_counter() - start > 60)
    # +|    if not torch.compiler.is_compiling():
    # +|        print("took long:", time.perf_counter() - start > 60)

    # Twice.
    y = x * 2
    print("took long:", time.perf_counter() - start > 60)
    return y + 1


# fuselight: seeded(f32[4])
def seeded(x):
    torch.manual_seed(3)
    # fix: [GB0007] hoist "Set the seed before the compiled code"
    # = 1 -> 1 graphs, same results
    #  |    torch.manual_seed(3)
    # +|    return _compiled_seeded(x)
    # +|
    # +|
    # +|@torch.compile
    # +|def _compiled_seeded(x):
    return x + torch.rand(4)


# fuselight: from_file(f32[4])
@torch.compile(mode="default")
def from_file(x):
    with open("/dev/null") as file:
    # fix: [GB0142] hoist "Read the file before the compiled code"
    # = 0 -> 1 graphs, same results
    # -|@torch.compile(mode="default")
    #  |        text = file.read()
    # +|    return _compiled_from_file(x, text)
    # +|
    # +|
    # +|@torch.compile(mode="default")
    # +|def _compiled_from_file(x, text):
        text = file.read()
    return x + len(text)


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.layer = nn.Linear(4, 4)

    # fuselight: Locked()(f32[4])
    def forward(self, x):
        with self.lock:
        # fix: [GB0142] hoist "Put `with self.lock` around the compiled code"
        # = 0 -> 1 graphs, same results
        # -|            # One at a time.
        # -|            y = self.layer(x)
        # -|            return y * 2
        # +|            return self._compiled_forward(x)
        # +|
        # +|    @torch.compile
        # +|    def _compiled_forward(self, x):
        # +|        # One at a time.
        # +|        y = self.layer(x)
        # +|        return y * 2
            # One at a time.
            y = self.layer(x)
            return y * 2
