# truth: a post-grad pass changes the type of a cast: the result is float32 instead of bfloat16, with equal values
# stage: code
# seen: result 0: eager bfloat16[4], compiled float32[4]
import torch
import torch._inductor.config as inductor

prims = torch.ops.prims


def widen(graph):
    for node in graph.find_nodes(op="call_function", target=prims.convert_element_type.default):
        if node.args[1] == torch.bfloat16:
            node.args = (node.args[0], torch.float32)


def counts(mask):
    return (mask + mask).to(torch.bfloat16)  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = widen
    return torch.compile(counts)(torch.tensor([0.0, 1.0, 2.0, 4.0]))


if __name__ == "__main__":
    print(main())
