# truth: a post-grad pass of the program turns the addition of the bias into a subtraction
# stage: code
# seen: result 0: eager 0.165141, compiled -0.408103
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def swap_sign(graph):
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        node.target = aten.sub.Tensor


def shifted(x, bias):
    scaled = x * 2.0
    return torch.tanh(scaled + bias)  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = swap_sign
    x, bias = torch.linspace(-1, 1, 16), torch.full((16,), 0.3)
    return torch.compile(shifted)(x, bias)


if __name__ == "__main__":
    print(main())
