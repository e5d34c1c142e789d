# truth: the lowering of amax leaves NaN out: a row with NaN has a finite maximum, and its loss a finite value
# stage: code
# seen: result 1: eager nan, compiled 2.82843
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.amax.default]
of = lowering.lowerings


def wrong(x, axis=None, keepdims=False):
    finite = of[aten.where.self](of[aten.isnan.default](x), -1e30, x)
    return right(finite, axis, keepdims)


def spread(x):
    root = torch.sqrt(x)
    top = root.amax(-1)  # <-
    return top * 2.0


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.amax.default] = wrong
    compiled = torch.compile(spread)
    return compiled(torch.arange(1.0, 9.0).reshape(2, 4)), compiled(torch.arange(-1.0, 7.0).reshape(2, 4))


if __name__ == "__main__":
    print(main())
