# truth: the lowering of the variance ignores the correction: it divides by n and not by n - 1
# stage: code
# seen: result 0: eager -2.12918, compiled -2.24332
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.var.correction]


def wrong(x, axis=None, *, correction=None, keepdim=False):
    return right(x, axis, correction=0, keepdim=keepdim)


def whitened(x):
    centered = x - x.mean(-1, keepdim=True)
    spread = x.var(-1, keepdim=True)  # <-
    return centered / (spread + 1e-5).sqrt()


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.var.correction] = wrong
    return torch.compile(whitened)(torch.linspace(-1, 2, 40).reshape(4, 10).cos())


if __name__ == "__main__":
    print(main())
