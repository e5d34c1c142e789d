"""Fixes of the kinds that the other files have, for other causes and other code."""

import time

import numpy as np
import torch
from torch import nn

LINEAR = nn.Linear(4, 4)


# fuselight: conditional_expression(f32[4])
def conditional_expression(x):
    return x + (x if x.max() > 1 else -x)
    # fix: [GB0170] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    return x + (x if x.max() > 1 else -x)
    # +|    return x + torch.where(x.max() > 1, x, -x)


# fuselight: integer(f32[4])
def integer(x):
    return x - int(x.sum())
    # fix: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 2 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True


# fuselight: longest(f32[4], i64[3] % 4 + 1)
def longest(x, lengths):
    return torch.arange(lengths.max()) + x.sum()
    # fix: [GB0033] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 2 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True


# fuselight: random_octave(f32[4])
def random_octave(x):
    octave = 2 ** (np.random.uniform(-1, 1) * 3)
    # fix: [GB0033] torch_random "Use torch's random numbers"
    # = 1 -> 1 graphs, changes behavior: random numbers
    # -|import numpy as np
    # -|    octave = 2 ** (np.random.uniform(-1, 1) * 3)
    # +|    octave = 2 ** (torch.empty(()).uniform_(-1, 1) * 3)
    return x * octave - octave / x


# fuselight: backward(f32[2, 4], no_grad=False)
def backward(x):
    LINEAR(x).sum().backward()
    # fix: [GB0123] trace_autograd_ops "Set trace_autograd_ops"
    # = 2 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.trace_autograd_ops = True
    return x * 2


# fuselight: asserted(f32[4].abs())
def asserted(x):
    assert x.min() >= 0, x.shape
    # fix: [GB0170] assert_async "Use torch._assert_async"
    # = 2 -> 1 graphs, changes behavior: when it raises, and the type and the message of the
    # = exception
    # -|    assert x.min() >= 0, x.shape
    # +|    torch._assert_async(x.min() >= 0)
    return x.sqrt()


# fuselight: frozen(f32[4])
def frozen(x):
    with torch.no_grad():
        scale = nn.Parameter(torch.ones(4))
        # fix: [GB0264] plain_tensor "Use a plain tensor"
        # = 2 -> 1 graphs, same results
        # -|        scale = nn.Parameter(torch.ones(4))
        # +|        scale = torch.ones(4)
        return x * scale


# fuselight: flagged_value(f32[2, 4], train=True)
def flagged_value(x):
    rows = torch.zeros_like(x).requires_grad_()
    # fix: [GB8985] eager_requires_grad "Leave `requires_grad` as it is in compiled code"
    # = 2 -> 1 graphs, same results
    # -|    rows = torch.zeros_like(x).requires_grad_()
    # +|    rows = torch.zeros_like(x) if torch.compiler.is_compiling() else torch.zeros_like(x).requires_grad_()
    return LINEAR(rows)


# fuselight: sliced(f32[8], i64[] % 4 + 2)
def sliced(x, size):
    return x[: size.item()] * 2
    # fix: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True


# fuselight: distinct(i64[6] % 3)
def distinct(x):
    return torch.unique(x) + torch.bincount(x, minlength=3).sum()
    # fix: [GB0036] capture_dynamic_output_shape_ops "Set capture_dynamic_output_shape_ops"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_dynamic_output_shape_ops = True


# fuselight: two_reductions(f32[4])
def two_reductions(x):
    return x[x > 0].sum() / x[x < 0.5].prod()
    # fix: [GB0036] where "Use torch.where before sum"
    # = 3 -> 1 graphs, same results
    # -|    return x[x > 0].sum() / x[x < 0.5].prod()
    # +|    return torch.where(x > 0, x, 0).sum() / torch.where(x < 0.5, x, 1).prod()


# fuselight: whole_number(f32[4], 2)
# fuselight: whole_number(f32[4], 3)
@torch.compile
def whole_number(x, n):
    return x * n
    # fix: [FL201] dynamic "Compile with dynamic=True"
    # = 1 -> 1 graphs, same results
    # -|@torch.compile
    # +|@torch.compile(dynamic=True)


# fuselight: Warmup()(f32[4], 0.5)
# fuselight: Warmup()(f32[4], 0.25)
class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0
        self.layer = nn.Linear(4, 4)

    def forward(self, x, rate):
        y = self.layer(x) * self.rate
        # fix: [FL201] buffer "Make `self.rate` a tensor, for no training after inference_mode"
        # = 1 -> 1 graphs, same results, except that `rate` becomes a tensor
        # -|        self.rate = 1.0
        # +|        self.rate = torch.tensor(1.0, dtype=torch.float64, device="cpu")
        # -|        self.rate = 0.125
        # +|        self.rate = torch.full_like(self.rate, 0.125)
        self.rate = 0.125
        return y


# fuselight: growing_cache(f32[1, 4], f32[2, 4])
# fuselight: growing_cache(f32[1, 4], f32[3, 4])
# fuselight: growing_cache(f32[1, 4], f32[4, 4])
@torch.compile
def growing_cache(x, cache):
    return torch.cat([cache, x]).sum(0)
    # fix: [FL201] dynamic "Compile with dynamic=True"
    # = 1 -> 1 graphs, same results
    # -|@torch.compile
    # +|@torch.compile(dynamic=True)
    # fix: [FL201] shapes_spec "Compile once for all sizes of cache in dimension 0; its other sizes stay fixed"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec
    # -|@torch.compile
    # +|@torch.compile(shapes_spec=ParamsSpec({"cache": TensorSpec([ShapeVar("cache_0"), None])}))


# fuselight: without_cudnn(f32[4])
def without_cudnn(x):
    y = x * 2
    with torch.backends.cudnn.flags(enabled=False):
    # fix: [GB0142] hoist "Put `with torch.backends.cudnn.flags(enabled=False)` around the compiled code"
    # = 1 -> 1 graphs, changes behavior: the `with` block covers the whole compiled call
    #  |def without_cudnn(x):
    # +|    with torch.backends.cudnn.flags(enabled=False):
    # +|        return _compiled_without_cudnn(x)
    # +|
    # +|
    # +|@torch.compile
    # +|def _compiled_without_cudnn(x):
    # -|    with torch.backends.cudnn.flags(enabled=False):
    # -|        y = y + 1
    # +|    y = y + 1
        y = y + 1
    return y


# fuselight: named_number(f32[4])
def named_number(x):
    most = x.max().item()
    # fix: [GB0124] keep_tensor "Keep the tensor"
    # = 2 -> 1 graphs, same results
    # -|    most = x.max().item()
    # +|    most = x.max().detach()
    return x * most + most


# fuselight: experts(f32[6, 4], i64[6] % 2)
def experts(x, chosen):
    for expert in range(2):
        rows = torch.where(chosen == expert)[0]
        # fix: [GB0036] capture_dynamic_output_shape_ops "Set capture_dynamic_output_shape_ops"
        # = 0 -> 1 graphs, same results
        #  |from torch import nn
        # +|torch._dynamo.config.capture_dynamic_output_shape_ops = True
        x = x.index_add(0, rows, x[rows] * 2)
    return x


# fuselight: Flagged()(f32[2, 4], train=True)
class Flagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            drop = False
            if self.training:
                if torch.rand([]) < 0.5:  # skip the layer
                # fix: [GB0170] cond "Use torch.cond"
                # = 0 -> 1 graphs, changes behavior: unused parameters get gradients of zero, so that an
                # = optimizer with weight decay or momentum changes them, and layers with state, with hooks,
                # = of another shape, dtype or strides, or that return their argument fail, except that unused
                # = parameters get zero gradients (weight decay and momentum change them)
                # -|                if torch.rand([]) < 0.5:  # skip the layer
                # -|                    drop = True
                # -|            if not drop:
                # -|                x = layer(x)
                # +|                # skip the layer
                # +|                drop = torch.where(torch.rand([]) < 0.5, True, drop)
                # +|            x = torch.cond(torch.logical_not(torch.as_tensor(drop)), lambda: layer(x), lambda: x.clone())
                    drop = True
            if not drop:
                x = layer(x)
        return x


# fuselight: measured_within(f32[4])
def measured_within(x):
    y = x * 2
    start = time.perf_counter()
    # fix: [GB0007] is_compiling "Skip `time.perf_counter` in compiled code"
    # = 2 -> 1 graphs, changes behavior: compiled calls measure no time, and do not print, log or
    # = warn about it
    # -|    start = time.perf_counter()
    # +|    if not torch.compiler.is_compiling():
    # +|        start = time.perf_counter()
    # -|    print(y.shape, time.perf_counter() - start > 60)
    # +|    if not torch.compiler.is_compiling():
    # +|        print(y.shape, time.perf_counter() - start > 60)
    z = y + 1
    print(y.shape, time.perf_counter() - start > 60)
    return z


# run by: make corpora
