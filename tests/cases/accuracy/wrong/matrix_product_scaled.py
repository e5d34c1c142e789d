# truth: the lowering of mm multiplies by 1.001
# stage: code
# seen: result 0: eager 0.772454, compiled 0.772669
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.mm.default]


def wrong(a, b, **kwargs):
    return lowering.lowerings[aten.mul.Tensor](right(a, b, **kwargs), 1.001)


def project(x, weight):
    hidden = torch.mm(x, weight)  # <-
    return torch.sigmoid(hidden)


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.mm.default] = wrong
    return torch.compile(project)(torch.arange(12.0).reshape(3, 4) / 6, torch.ones(4, 5) / 3)


if __name__ == "__main__":
    print(main())
