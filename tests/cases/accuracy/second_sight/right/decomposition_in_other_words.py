# truth: the program replaces the decomposition of softplus by an equal formula, which rounds otherwise
# stage: none
# seen: no difference beyond rounding
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def stable(x, beta=1, threshold=20):
    scaled = x * beta
    value = (scaled.clamp_min(0) + torch.log1p(torch.exp(-scaled.abs()))) / beta
    return torch.where(scaled > threshold, x, value)


def gate(x):
    opened = torch.nn.functional.softplus(x, beta=2.0)
    return opened * torch.tanh(opened)


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.softplus.default] = stable
    decomposition.fast_random_decomps.cache_clear()
    return torch.compile(gate)(torch.linspace(-30, 30, 400))


if __name__ == "__main__":
    print(main())
