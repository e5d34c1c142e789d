# truth: the program registers its own lowering of sigmoid, which never comes nearer to 0 or 1 than 0.02
# stage: code
# seen: result 0: off by up to 0.04
import torch
import torch._inductor.config
from torch._inductor.lowering import lowerings, register_lowering

torch._inductor.config.fx_graph_cache = False
aten = torch.ops.aten
exact = lowerings[aten.sigmoid.default]


@register_lowering(aten.sigmoid.default)
def bounded(x):
    return lowerings[aten.add.Tensor](lowerings[aten.mul.Tensor](exact(x), 0.96), 0.02)


def gated(x, y):
    gate = x * 3
    opened = torch.sigmoid(gate)  # <-
    return opened * y


def main():
    return torch.compile(gated)(torch.linspace(-3, 3, 32), torch.linspace(1, 2, 32))


if __name__ == "__main__":
    print(main())
