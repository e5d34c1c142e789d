# truth: the decomposition of silu is replaced by one that multiplies by 1.002
# stage: decomposition
# seen: result 0: eager 2.85772, compiled 2.86344
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(x):
    return x * torch.sigmoid(x) * 1.002


def block(x, gate):
    opened = torch.nn.functional.silu(gate)  # <-
    return x * opened


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.silu.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    return torch.compile(block)(torch.ones(16), torch.linspace(-3, 3, 16))


if __name__ == "__main__":
    print(main())
