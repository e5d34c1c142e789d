# truth: the program's decomposition of a norm adds up in a product in half precision, which overflows
# stage: decomposition
# seen: result 0: eager -0.152496, compiled 0
import torch
import torch._inductor.config
from torch._inductor.decomposition import decompositions, fast_random_decomps

torch._inductor.config.fx_graph_cache = False
aten = torch.ops.aten


def plain_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    half = x.to(torch.float16)
    return torch.mm(half, half.t()).diagonal().float().sqrt()[:, None]


decompositions[aten.linalg_vector_norm.default] = plain_norm
fast_random_decomps.cache_clear()


def clipped(gradients):
    total = torch.linalg.vector_norm(gradients, dim=-1, keepdim=True)  # <-
    return gradients / (total + 1e-3)


def main():
    gradients = torch.linspace(-300, 300, 1024).reshape(8, 128)
    return torch.compile(clipped)(gradients)


if __name__ == "__main__":
    print(main())
