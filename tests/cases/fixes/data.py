"""Fixes of numbers, sizes and branches that depend on data, with the text after."""

import torch
from torch import nn


# fuselight: deciding_number(f32[4])
def deciding_number(x):
    most = x.max().item()
    # fix: [GB0124] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    most = x.max().item()
    # -|    if most > 0.5:
    # -|        x = x * 2
    # +|    most = x.max()
    # +|    x = torch.where(most > 0.5, x * 2, x)
    if most > 0.5:
        x = x * 2
    return x + 1


# fuselight: Layers()(f32[2, 4], train=True)
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        for layer in self.layers:
            skip = False
            if self.training:
                skip = torch.rand([]) < 0.5
            if not skip:
            # fix: [GB0170] cond "Use torch.cond"
            # = 0 -> 1 graphs, changes behavior: unused parameters get gradients of zero, so that an
            # = optimizer with weight decay or momentum changes them, and layers with state, with hooks,
            # = of another shape, dtype or strides, or that return their argument fail, except that unused
            # = parameters get zero gradients (weight decay and momentum change them)
            # -|            if not skip:
            # -|                x = layer(x)
            # +|            x = torch.cond(torch.logical_not(torch.as_tensor(skip)), lambda: layer(x), lambda: x.clone())
                x = layer(x)
        return x


# fuselight: Dropped()(f32[2, 4], train=True)
class Dropped(Layers):
    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand([]) < 0.5:
            # fix: [GB0170] cond "Use torch.cond"
            # = 0 -> 1 graphs, changes behavior: unused parameters get gradients of zero, so that an
            # = optimizer with weight decay or momentum changes them, and layers with state, with hooks,
            # = of another shape, dtype or strides, or that return their argument fail, except that unused
            # = parameters get zero gradients (weight decay and momentum change them)
            # -|            if self.training and torch.rand([]) < 0.5:
            # -|                continue
            # -|            x = layer(x)
            # +|            if self.training:
            # +|                x = torch.cond(torch.rand([]) < 0.5, lambda: x.clone(), lambda: layer(x))
            # +|            else:
            # +|                x = layer(x)
                continue
            x = layer(x)
        return x


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


# fuselight: SelectedRows()(f32[2, 3, 4])
class SelectedRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Mlp(4)

    def forward(self, x):
        y = x * 2
        m = x.sum(-1) > 0
        y[m] = self.mlp(x[m])
        # fix: [GB0036] where "Use torch.where"
        # = 2 -> 1 graphs, same results
        # -|        y[m] = self.mlp(x[m])
        # +|        y.copy_(torch.where(m.unsqueeze(-1), self.mlp(x), y))
        return y


# fuselight: promised_number(f32[8], i64[3] % 4 + 2)
def promised_number(x, n):
    most = int(n.max())
    # refused: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = it causes another finding: GB0170 on data.py:67: graph break: a branch depends on the data
    # = of a tensor
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    # fix: [GB0124] check "Set capture_scalar_outputs and promise `most <= 10`"
    # = 2 -> 1 graphs, changes behavior: calls in which that does not hold fail
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    #  |    most = int(n.max())
    # +|    torch._check(most <= 10)
    if most > 10:
        x = x + 1
    return x[:most] * 2


# fuselight: promised_flag(f32[8], i64[3] % 4 + 2)
def promised_flag(x, n):
    is_long = (n > 10).any().item()
    # refused: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
    # = it causes another finding: FL107 on data.py:79: graph break: Consider annotating your code
    # = using torch._check*(). Could not guard on data-dependent expression Eq(u0, 1)...
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    # fix: [GB0124] check "Set capture_scalar_outputs and promise `torch.sym_not(is_long)`"
    # = 2 -> 1 graphs, changes behavior: calls in which that does not hold fail
    #  |from torch import nn
    # +|torch._dynamo.config.capture_scalar_outputs = True
    #  |    is_long = (n > 10).any().item()
    # +|    torch._check(torch.sym_not(is_long))
    return shifted(x * 2, is_long)


def shifted(x, is_long):
    return x - 1 if is_long else x
