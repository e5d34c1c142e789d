# truth: a pass rounds one operand of each product to steps of 1/128, as one for mixed precision may
# stage: code
# seen: result 0: eager -2.119, compiled -2.12399
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def quantize(graph):
    for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        with graph.inserting_before(node):
            steps = graph.call_function(aten.mul.Tensor, (node.args[0], 128.0))
            whole = graph.call_function(aten.round.default, (steps,))
            back = graph.call_function(aten.div.Tensor, (whole, 128.0))
        node.args = (back, node.args[1])


def rotate(query, angle):
    cosine = angle.cos()
    turned = query * cosine  # <-
    return turned.sum(-1)


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = quantize
    return torch.compile(rotate)(torch.linspace(-2, 2, 32).reshape(4, 8) ** 3, torch.linspace(0, 1, 8))


if __name__ == "__main__":
    print(main())
