# truth: the lowering of log1p is replaced by one that is off by one part in 2,000
# stage: code
# seen: result 0: eager 0.905476, compiled 0.905702
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.log1p.default]


def wrong(x):
    return lowering.lowerings[aten.mul.Tensor](right(x), 1.0005)


def entropy(x):
    weights = torch.softmax(x, -1)
    part = weights * 2.0 + 1.0
    surprise = torch.log1p(part)  # <-
    total = (surprise * weights).sum(-1)
    return total.sqrt()


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.log1p.default] = wrong
    return torch.compile(entropy)(torch.linspace(-2, 2, 32).reshape(4, 8))


if __name__ == "__main__":
    print(main())
