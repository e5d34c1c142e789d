"""Fixes of graph breaks: each cause once, with the text after."""

import logging
import warnings

import numpy as np
import torch
from torch import nn

logger = logging.getLogger(__name__)
LINEAR = nn.Linear(4, 4)


# fuselight: branch(f32[4])
def branch(x):
    if x.sum() > 0:  # positive
    # fix: [GB0170] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    if x.sum() > 0:  # positive
    # -|        return x * 2
    # -|    return x - 1
    # +|    # positive
    # +|    return torch.where(x.sum() > 0, x * 2, x - 1)
        return x * 2
    return x - 1


# fuselight: Block(4)(f32[2, 4])
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.down = nn.Sequential(nn.Linear(width, width), nn.ReLU())

    def forward(self, x):
        if x.sum() > 0:
        # fix: [GB0170] cond "Use torch.cond"
        # = 2 -> 1 graphs, changes behavior: unused parameters get gradients of zero, so that an
        # = optimizer with weight decay or momentum changes them, and layers with state, with hooks,
        # = of another shape, dtype or strides, or that return their argument fail
        # -|        if x.sum() > 0:
        # -|            return self.down(x)
        # -|        return self.up(x)
        # +|        return torch.cond(x.sum() > 0, lambda: self.down(x), lambda: self.up(x))
            return self.down(x)
        return self.up(x)


# fuselight: half(f16[4])
def half(x):
    total = x.float().abs().sum().item()
    # fix: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 2 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    return x / total


# fuselight: number(f32[4])
def number(x):
    return x * x.max().item()
    # fix: [GB0124] keep_tensor "Keep the tensor"
    # = 2 -> 1 graphs, same results
    # -|    return x * x.max().item()
    # +|    return x * x.max().detach()


# fuselight: sizes(f32[4], i64[2] * 0 + 2)
def sizes(x, parts):
    first, second = torch.split(x, parts.tolist())
    # fix: [GB0033] capture_scalar_outputs "Set capture_scalar_outputs"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    return first * second


# fuselight: nonzero(f32[4])
def nonzero(x):
    return x.nonzero() + 1
    # fix: [GB0036] capture_dynamic_output_shape_ops "Set capture_dynamic_output_shape_ops"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.capture_dynamic_output_shape_ops = True


# fuselight: masked_sum(f32[4, 4])
def masked_sum(x):
    return x[x > 0].sum()
    # fix: [GB0036] where "Use torch.where before sum"
    # = 2 -> 1 graphs, same results
    # -|    return x[x > 0].sum()
    # +|    return torch.where(x > 0, x, 0).sum()


# fuselight: masked_values(f32[4])
def masked_values(x):
    y = x.clone()
    y[x > 0] = x[x > 0] * 2
    # fix: [GB0036] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    y[x > 0] = x[x > 0] * 2
    # +|    y.copy_(torch.where(x > 0, x * 2, y))
    return y


# fuselight: repeats(f32[3])
def repeats(x):
    return torch.repeat_interleave(x, torch.tensor([1, 2, 3]))
    # fix: [GB0036] output_size "Pass output_size=6"
    # = 1 -> 1 graphs, same results
    # -|    return torch.repeat_interleave(x, torch.tensor([1, 2, 3]))
    # +|    return torch.repeat_interleave(x, torch.tensor([1, 2, 3]), output_size=6)


# fuselight: random_number(f32[4])
def random_number(x):
    return x * np.random.rand()
    # fix: [GB0033] torch_random "Use torch's random numbers"
    # = 1 -> 1 graphs, changes behavior: random numbers
    # -|    return x * np.random.rand()
    # +|    return x * torch.rand(())


# fuselight: logged(f32[4])
def logged(x):
    logger.warning("shape %s", x.shape)
    # fix: [GB0291] ignore_logging_functions "Ignore `logger.warning` in compiled code"
    # = 1 -> 1 graphs, changes behavior: compiled calls do not log here
    #  |logger = logging.getLogger(__name__)
    # +|torch._dynamo.config.ignore_logging_functions.add(logger.warning)
    # fix: [GB0291] is_compiling "Skip `logger.warning` in compiled code"
    # = 1 -> 1 graphs, changes behavior: compiled calls do not print, log or warn here
    # -|    logger.warning("shape %s", x.shape)
    # +|    if not torch.compiler.is_compiling():
    # +|        logger.warning("shape %s", x.shape)
    return x + 1


# fuselight: printed(f32[4])
def printed(x):
    print("sum", x.sum(), f"{x.mean():.3f}")
    # fix: [GB0059] graph_print "Print in the graph"
    # = 2 -> 1 graphs, changes behavior: compiled calls show tensors that require gradients
    # = without `grad_fn`
    # -|    print("sum", x.sum(), f"{x.mean():.3f}")
    # +|    torch._higher_order_ops.print("sum {!s} {:.3f}", x.sum(), x.mean())
    # fix: [GB0059] reorderable_logging_functions "Print after the graph: `print`"
    # = 2 -> 1 graphs, changes behavior: the order of what is printed
    #  |from torch import nn
    # +|torch._dynamo.config.reorderable_logging_functions.add(print)
    # fix: [GB0059] is_compiling "Skip `print` in compiled code"
    # = 2 -> 1 graphs, changes behavior: compiled calls do not print, log or warn here, nor raise
    # = exceptions of its formats
    # -|    print("sum", x.sum(), f"{x.mean():.3f}")
    # +|    if not torch.compiler.is_compiling():
    # +|        print("sum", x.sum(), f"{x.mean():.3f}")
    return x + 1


# fuselight: warned(f32[4])
def warned(x):
    warnings.warn("slow")
    # fix: [GB0007] reorderable_logging_functions "Print after the graph: `warnings.warn`"
    # = 1 -> 1 graphs, changes behavior: the order of what is printed, and a warning of which a
    # = filter makes an error comes after the graph
    #  |from torch import nn
    # +|torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)
    return x + 1


# fuselight: gradient(f32[2, 4], no_grad=False)
def gradient(x):
    return torch.autograd.grad(LINEAR(x).sum(), LINEAR.weight)[0]
    # fix: [GB9186] trace_autograd_ops "Set trace_autograd_ops"
    # = 1 -> 1 graphs, same results
    #  |from torch import nn
    # +|torch._dynamo.config.trace_autograd_ops = True


# fuselight: checked(f32[4].abs())
def checked(x):
    if (x < 0).any():
    # fix: [GB0170] assert_async "Use torch._assert_async"
    # = 2 -> 1 graphs, changes behavior: when it raises, and the type of the exception
    # -|    if (x < 0).any():
    # -|        raise ValueError("negative")
    # +|    torch._assert_async(torch.logical_not((x < 0).any()), "negative")
        raise ValueError("negative")
    return x.sqrt()


# fuselight: parameter(f32[4])
def parameter(x):
    with torch.no_grad():
        scale = nn.Parameter(torch.ones(4))
        # fix: [GB0264] plain_tensor "Use a plain tensor"
        # = 2 -> 1 graphs, same results
        # -|        scale = nn.Parameter(torch.ones(4))
        # +|        scale = torch.ones(4)
        return x * scale


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return left * right

    @staticmethod
    def backward(ctx, gradient):
        left, right = ctx.saved_tensors
        return gradient * right, gradient * left


# fuselight: squared(f32[4], train=True)
def squared(x):
    return Product.apply(x, x)
    # fix: [GB6297] clone_argument "Copy the repeated argument"
    # = 1 -> 1 graphs, same results
    # -|    return Product.apply(x, x)
    # +|    return Product.apply(x, x.clone())


# fuselight: flagged(f32[2, 4], train=True)
def flagged(x):
    rows = x.detach()[:, None]
    rows.requires_grad = True
    # fix: [GB0206] eager_requires_grad "Leave `requires_grad` as it is in compiled code"
    # = 2 -> 1 graphs, same results
    # -|    rows.requires_grad = True
    # +|    if not torch.compiler.is_compiling():
    # +|        rows.requires_grad = True
    return LINEAR(rows)


# fuselight: Skipping()(f32[2, 4], train=True)
class Skipping(nn.Module):
    """Skips a layer at random, by a number of NumPy."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            number = np.random.uniform(0, 1)
            # fix: [GB0033] cond "Use torch.cond, with torch's random numbers"
            # = 0 -> 1 graphs, changes behavior: random numbers; unused parameters get gradients of zero,
            # = so that an optimizer with weight decay or momentum changes them, and layers with state,
            # = with hooks, of another shape, dtype or strides, or that return their argument fail, except
            # = that unused parameters get zero gradients (weight decay and momentum change them)
            # -|            number = np.random.uniform(0, 1)
            # -|            if self.training and number < 0.05:
            # -|                continue
            # -|            x = layer(x)
            # +|            number = torch.empty(()).uniform_(0, 1)
            # +|            if self.training:
            # +|                x = torch.cond(number < 0.05, lambda: x.clone(), lambda: layer(x))
            # +|            else:
            # +|                x = layer(x)
            if self.training and number < 0.05:
                continue
            x = layer(x)
        return x


class Keeping(nn.Module):
    """Keeps the results of its calls in a list of the caller."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x, kept):
        x = self.up(x)
        kept.append(x)
        return x


# fuselight: Cached()(f32[2, 4], train=True)
class Cached(nn.Module):
    """Skips a layer at random that writes into a list."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Keeping() for _ in range(2))

    def forward(self, x):
        kept = []
        for layer in self.layers:
            if self.training and torch.rand([]) < 0.05:
            # refused: [GB0170] cond "Use torch.cond"
            # = the changed text fails: HOP: Unsafe side effect
            # -|            if self.training and torch.rand([]) < 0.05:
            # -|                continue
            # -|            x = layer(x, kept)
            # +|            if self.training:
            # +|                x = torch.cond(torch.rand([]) < 0.05, lambda: x.clone(), lambda: layer(x, kept))
            # +|            else:
            # +|                x = layer(x, kept)
            # refused: [GB0170] random_cond "Use torch.cond, with other random numbers"
            # = the changed text fails: HOP: Unsafe side effect
            # -|            if self.training and torch.rand([]) < 0.05:
            # -|                continue
            # -|            x = layer(x, kept)
            # +|            if self.training:
            # +|                x = torch.cond(torch.rand([]) < 0.05, lambda: x.clone(), lambda: layer(x, kept))
            # +|            else:
            # +|                x = layer(x, kept)
            # fix: [GB0170] computed_where "Compute the layer also where it is skipped, and use torch.where"
            # = 1 -> 1 graphs, changes behavior: random numbers, gradients of zero instead of None, which
            # = weight decay and momentum turn into changes, and what a skipped layer keeps: it is
            # = computed, and its result is not used
            # -|            if self.training and torch.rand([]) < 0.05:
            # -|                continue
            # -|            x = layer(x, kept)
            # +|            if self.training:
            # +|                x = torch.where(torch.rand([]) < 0.05, x, layer(x, kept))
            # +|            else:
            # +|                x = layer(x, kept)
                continue
            x = layer(x, kept)
        return x, kept
