# truth: a post-grad pass acts on graphs with symbolic sizes only: the first compile is right, the second one wrong
# stage: code
# seen: result 1: eager 0.25, compiled 196
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def halve_if_dynamic(graph):
    sizes = [n for n in graph.find_nodes(op="placeholder") if isinstance(n.meta["val"], torch.SymInt)]
    for node in graph.find_nodes(op="call_function", target=aten.div.Tensor) if sizes else []:
        node.target = aten.mul.Tensor


def share(x):
    total = x.sum()
    return x / total  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = halve_if_dynamic
    compiled = torch.compile(share)
    return compiled(torch.arange(1.0, 5.0)), compiled(torch.arange(1.0, 8.0))


if __name__ == "__main__":
    print(main())
