# truth: only the decomposition of the backward of silu is wrong: values are right, gradients are too small
# stage: decomposition
# seen: result 1: eager 1.09078, compiled 1.07988
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(grad, x):
    sigmoid = torch.sigmoid(x)
    return grad * sigmoid * (1 + x * (1 - sigmoid)) * 0.99


def loss(x):
    return torch.nn.functional.silu(x).sum()  # <-


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.silu_backward.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    x = torch.linspace(-2, 2, 8, requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
