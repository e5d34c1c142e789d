# truth: the decomposition of layer norm forgets epsilon under the root: rows that are constant become NaN
# stage: decomposition
# seen: result 0: eager 0, compiled nan
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(x, shape, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    rstd = (x - mean).square().mean(-1, keepdim=True).rsqrt()
    return (x - mean) * rstd * weight + bias, mean, rstd


def normalize(norm, x):
    return norm(x) * 2.0  # <-


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.native_layer_norm.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]])
    with torch.no_grad():
        return torch.compile(normalize)(torch.nn.LayerNorm(4), x)


if __name__ == "__main__":
    print(main())
