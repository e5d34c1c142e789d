# truth: the decomposition of celu is replaced by one that scales the negative part
# stage: decomposition
# seen: result 0: eager -1.16267, compiled -1.16447
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(x, alpha=1.0):
    return torch.where(x > 0, x, 0.98 * alpha * torch.expm1(x / alpha))


class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Parameter(torch.eye(6) + 0.1)

    def forward(self, x):
        mixed = x @ self.mix
        activated = torch.celu(mixed, alpha=1.5)  # <-
        weights = torch.softmax(activated, dim=-1)
        return (weights * mixed).sum(-1)


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.celu.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    return torch.compile(Mixer())(torch.linspace(-3, 3, 24).reshape(4, 6)).detach()


if __name__ == "__main__":
    print(main())
