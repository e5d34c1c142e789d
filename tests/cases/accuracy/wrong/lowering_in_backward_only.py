# truth: the lowering of the comparison that only the backward of relu uses is wrong: the gradient of 0 is 1
# stage: code
# seen: result 1: eager 0, compiled 1
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten


def wrong(x, y):
    return lowering.lowerings[aten.lt.Scalar](x, y)


def activation(x):
    return torch.relu(x).sum()  # <-


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.le.Scalar] = wrong
    x = torch.tensor([-1.0, 0.0, 2.0, 3.0], requires_grad=True)
    value = torch.compile(activation)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
