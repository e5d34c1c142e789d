# truth: a post-grad pass drops the clamp before the logarithm: compiled code has a NaN where eager mode has a number
# stage: code
# seen: result 0: eager -30, compiled nan
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def drop_clamp(graph):
    for node in graph.find_nodes(op="call_function", target=aten.clamp_min.default):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def decibels(power):
    shifted = power - 0.5
    floored = shifted.clamp_min(1e-3)  # <-
    scale = floored.log10()
    return scale * 10.0


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = drop_clamp
    return torch.compile(decibels)(torch.linspace(0.1, 2.0, 16))


if __name__ == "__main__":
    print(main())
