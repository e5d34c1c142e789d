"""A break in a library that several lines lead to: one finding, and a short reference on each of the other lines."""

import sys
import types

import torch
from torch import nn

LIBRARY = types.ModuleType("attention")
exec(
    compile(
        """
import torch


def attend(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def gate(x):
    y = x.exp()
    return y if (y.max() > 0) else -y


def shift(x, mode):
    torch._dynamo.graph_break()
    return x + 1 if mode == "up" else x - 1
""",
        "/opt/lib/python3.11/site-packages/attention/layers.py",
        "exec",
    ),
    LIBRARY.__dict__,
)
sys.modules[LIBRARY.__name__] = LIBRARY


# fuselight: three_lines(f32[4])
def three_lines(x):
    x = LIBRARY.attend(x.sin())  # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
    x = LIBRARY.attend(x.cos())
    # hint: [GB0170] "same cause as line 41: graph break: a branch depends on the data of a tensor"
    return LIBRARY.attend(x.tan())
    # hint: [GB0170] "same cause as line 41: graph break: a branch depends on the data of a tensor"


# fuselight: two_library_lines(f32[4])
def two_library_lines(x):
    x = LIBRARY.attend(x.tanh())
    # hint: [GB0170] "same cause as line 41: graph break: a branch depends on the data of a tensor"
    x = LIBRARY.gate(x)  # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
    return LIBRARY.gate(x.sum() + x.sin())
    # hint: [GB0170] "same cause as line 52: graph break: a branch depends on the data of a tensor"


# fuselight: recompiled_by_each_line(f32[4])
def recompiled_by_each_line(x):
    x = LIBRARY.shift(x, "up")  # info: [GB0025] "graph break: requested by `shift` in a library"
    x = LIBRARY.shift(x, "down")
    # warning: [FL201] "recompiled: mode was 'up', now 'down'"
    # hint: [GB0025] "same cause as line 59: graph break: requested by `shift` in a library"
    return LIBRARY.shift(x, "left")
    # hint: [FL201] "same cause as line 60: recompiled: mode was 'down', now 'left'"
    # hint: [GB0025] "same cause as line 59: graph break: requested by `shift` in a library"


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        x = self.first(x)  # warning: [GB0055] "graph break: an argument of this call cannot be part of a graph"
        x = x.relu()
        return self.second(x)
        # hint: [GB0055] "same cause as line 75: graph break: an argument of this call cannot be part of a graph"


def quantized():
    return torch.ao.quantization.quantize_dynamic(Quantized(), {nn.Linear}, dtype=torch.qint8)


# fuselight: call_quantized(quantized(), f32[4, 8])
def call_quantized(model, x):
    return model(x)
