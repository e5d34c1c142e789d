# truth: the lowering of tanh is replaced by one that multiplies by 1.0005
# stage: code
# seen: result 0: eager 1.92806, compiled 1.92902
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.tanh.default]


def wrong(x):
    return lowering.lowerings[aten.mul.Tensor](right(x), 1.0005)


def gate(x, y):
    squashed = torch.tanh(x)  # <-
    return squashed * y


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.tanh.default] = wrong
    return torch.compile(gate)(torch.linspace(-2, 2, 16), torch.linspace(1, 2, 16))


if __name__ == "__main__":
    print(main())
