# truth: the decomposition of nll_loss divides by all targets, also by those that are ignored
# stage: decomposition
# seen: result 1: eager 1.80869, compiled 0.954347
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten
right = decomposition.decompositions[aten.nll_loss_forward.default]


def wrong(self, target, weight, reduction, ignore_index):
    total, _ = right(self, target, weight, 2, ignore_index)
    count = torch.full((), float(target.numel()))
    return total / count, count


def loss(logits, target):
    scaled = logits * 0.5
    value = torch.nn.functional.cross_entropy(scaled, target, ignore_index=-1)  # <-
    return value + 0.1


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.nll_loss_forward.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    compiled = torch.compile(loss)
    logits = torch.linspace(-2, 2, 20).cos().reshape(4, 5)
    return compiled(logits, torch.tensor([0, 4, 2, 1])), compiled(logits, torch.tensor([0, -1, 2, -1]))


if __name__ == "__main__":
    print(main())
