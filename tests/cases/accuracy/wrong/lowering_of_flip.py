# truth: the lowering of flip (rev) returns its input
# stage: code
# seen: result 0: eager 1.5, compiled 0
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten


def wrong(x, dims):
    return lowering.lowerings[aten.clone.default](x)


def symmetric(x):
    mirrored = x.flip(-1)  # <-
    return (x + mirrored) / 2


def main():
    config.fx_graph_cache = False
    lowering.lowerings[torch.ops.prims.rev.default] = wrong
    return torch.compile(symmetric)(torch.arange(12.0).reshape(3, 4))


if __name__ == "__main__":
    print(main())
