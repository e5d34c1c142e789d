# truth: the decomposition of index_add forgets alpha: only the argument that is written is wrong
# stage: decomposition
# seen: result 1: eager -10, compiled 5
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(x, dim, index, source, *, alpha=1):
    where = (None,) * (dim % x.dim()) + (index,)
    return aten.index_put(x, where, source, accumulate=True)


def accumulate(table, rows, updates):
    shrunk = updates * 0.5
    table.index_add_(0, rows, shrunk, alpha=-2.0)  # <-
    return shrunk.sum()


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.index_add.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    table, rows = torch.zeros(5, 3), torch.tensor([1, 3, 1])
    value = torch.compile(accumulate)(table, rows, torch.arange(9.0).reshape(3, 3))
    return value, table


if __name__ == "__main__":
    print(main())
