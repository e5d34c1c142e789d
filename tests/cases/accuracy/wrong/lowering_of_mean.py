# truth: the lowering of mean is replaced by one that is 0.3 percent too large
# stage: code
# seen: result 0: eager -7.5, compiled -7.5735
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.mean.dim]


def wrong(*args, **kwargs):
    return lowering.lowerings[aten.mul.Tensor](right(*args, **kwargs), 1.003)


def center(x):
    level = x.mean(-1, keepdim=True)  # <-
    return x - level


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.mean.dim] = wrong
    return torch.compile(center)(torch.arange(1.0, 33.0).reshape(2, 16))


if __name__ == "__main__":
    print(main())
