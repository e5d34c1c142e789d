# truth: a post-grad pass exchanges the operands of each subtraction; the first one is squared, so only the second shows
# stage: code
# seen: result 0: eager 4.12958, compiled 0
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def swap(graph):
    for node in graph.find_nodes(op="call_function", target=aten.sub.Tensor):
        left, right = node.args
        node.args = (right, left)


def contrast(x, y):
    distance = (x - y).square().sum(-1)
    scaled = distance.sqrt() + 1.0
    margin = scaled - x[..., 0]  # <-
    return margin.relu()


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = swap
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    return torch.compile(contrast)(x, x.flip(0) * 0.5)


if __name__ == "__main__":
    print(main())
