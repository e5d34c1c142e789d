"""Recompilations that come from state: what the program changed between two calls of the same function.

The file's own `__main__` block makes the calls; each function is compiled for itself.
"""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

SCALE = 1
CONFIG = {"scale": 1}


class Training(nn.Module):
    def forward(self, x):
        if self.training:  # warning: [FL201] "self.training was True, now False"
            x = x + 1
        return x * 2


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2

    def forward(self, x):
        return x * self.scale  # warning(2.13, 2.14, 2.15): [FL201] "self.scale was 2, now 3"
        #      ^^^^^^^^^^^^^^
        # warning(2.11): [FL201] "self.scale was 2, now 3"


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # warning: [FL201] "self.calls was 0, now 1"
        return x + self.calls


class ClassCounter(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1  # warning: [FL201] "self.calls was 0, now 1"
        return x + self.calls


class Activation(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.ReLU()

    def forward(self, x):
        return self.activation(x)  # warning: [FL201] "self.activation"


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:  # warning: [FL201] "self.layers"
            x = layer(x)
        return x


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)  # warning(2.13, 2.14, 2.15): [FL201] "self.layer.weight"


class Precision(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)  # warning: [FL201] "float64"


class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)  # warning: [FL201] "self.layer.bias"


def global_number(x):
    return x * SCALE  # warning: [FL201] "SCALE was 1, now 2"


def global_dict(x):
    return x * CONFIG["scale"]  # warning: [FL201] "CONFIG['scale'] was 1, now 2"


def default_argument(x, scale=[1]):  # noqa: B006 - that it is shared is the point
    return x * scale[0]  # warning: [FL201] "scale[0] was 1, now 2"


def grad_mode(x):  # info: [FL201] "recompiled: grad mode was on, now off"
    return x + 1


def autocast(x):  # warning: [FL201] "autocast"
    return x + 1


def determinism(x):  # warning: [FL201] "deterministic"
    return x + 1


def default_dtype(x):  # warning: [FL201] "default"
    return x + 1


def threads(x):  # warning: [FL201] "threads"
    return x + 1


def function_mode(x):  # warning: [FL201] "function mode"
    return x + 1


def inference(x):
    return x + 1  # warning: [FL201] "x"


def compiled_twice(x):  # warning: [FL201] "backend, mode or options"
    return x + 1


class PassThrough(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


if __name__ == "__main__":
    x = torch.randn(4)

    training = Training()
    compiled = torch.compile(training)
    compiled(x)
    training.eval()
    compiled(x)

    attribute = Attribute()
    compiled = torch.compile(attribute)
    compiled(x)
    attribute.scale = 3
    compiled(x)

    for counter in (Counter(), ClassCounter()):
        compiled = torch.compile(counter)
        for _ in range(3):
            compiled(x)

    activation = Activation()
    compiled = torch.compile(activation)
    compiled(x)
    activation.activation = nn.GELU()
    compiled(x)

    layers = Layers()
    compiled = torch.compile(layers)
    compiled(x)
    layers.layers.append(nn.Linear(4, 4))
    compiled(x)

    frozen = Frozen()
    compiled = torch.compile(frozen)
    compiled(x)
    frozen.layer.weight.requires_grad_(False)
    compiled(x)

    precision = Precision()
    compiled = torch.compile(precision)
    compiled(x)
    precision.double()
    compiled(x.double())

    bias = Bias()
    compiled = torch.compile(bias)
    compiled(x)
    bias.layer.bias = None
    compiled(x)

    compiled = torch.compile(global_number)
    compiled(x)
    SCALE = 2
    compiled(x)

    compiled = torch.compile(global_dict)
    compiled(x)
    CONFIG["scale"] = 2
    compiled(x)

    compiled = torch.compile(default_argument)
    compiled(x)
    default_argument.__defaults__[0][0] = 2
    compiled(x)

    compiled = torch.compile(grad_mode)
    compiled(x)
    with torch.no_grad():
        compiled(x)

    compiled = torch.compile(autocast)
    compiled(x)
    with torch.autocast("cpu"):
        compiled(x)

    compiled = torch.compile(determinism)
    compiled(x)
    torch.use_deterministic_algorithms(True)
    compiled(x)
    torch.use_deterministic_algorithms(False)

    compiled = torch.compile(default_dtype)
    compiled(x)
    torch.set_default_dtype(torch.float64)
    compiled(x)
    torch.set_default_dtype(torch.float32)

    compiled = torch.compile(threads)
    compiled(x)
    torch.set_num_threads(torch.get_num_threads() + 1)
    compiled(x)

    compiled = torch.compile(function_mode)
    compiled(x)
    with PassThrough():
        compiled(x)

    compiled = torch.compile(inference)
    compiled(x)
    with torch.inference_mode():
        y = torch.randn(4)
    compiled(y)

    torch.compile(compiled_twice)(x)
    torch.compile(compiled_twice, mode="reduce-overhead")(x)
