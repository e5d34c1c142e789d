# truth: a post-grad pass multiplies the constant of a product by 1.002
# stage: code
# seen: result 0: eager 761.5, compiled 763.023
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def scale_constants(graph):
    for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        if isinstance(node.args[1], float):
            node.args = (node.args[0], node.args[1] * 1.002)


def norm_of(x):
    squares = x * x
    total = squares.sum(-1)
    return total * 0.125  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = scale_constants
    return torch.compile(norm_of)(torch.arange(32.0).reshape(4, 8))


if __name__ == "__main__":
    print(main())
