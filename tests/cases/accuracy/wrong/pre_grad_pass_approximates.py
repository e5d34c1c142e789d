# truth: a pre-grad pass replaces gelu by its approximation with tanh
# stage: code
# seen: result 0: eager -0.0121189, compiled -0.0116539
import torch
import torch._inductor.config as inductor
from torch.nn import functional


def approximate(graph):
    for node in graph.nodes:
        if node.target is functional.gelu or node.target is torch._C._nn.gelu:
            node.kwargs = {"approximate": "tanh"}


def feed_forward(x):
    hidden = x * 3.0
    return functional.gelu(hidden)  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.pre_grad_custom_pass = approximate
    return torch.compile(feed_forward)(torch.linspace(-1, 1, 16))


if __name__ == "__main__":
    print(main())
