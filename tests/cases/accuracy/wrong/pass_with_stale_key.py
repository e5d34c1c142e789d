# truth: a cached pass has one key for two behaviors: the second compile gets the code of the first scale
# stage: caches
# seen: result 1: eager 3.52441, compiled 1.84147
import torch
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass

scale = {"value": 1.0}


@torch.library.custom_op("accuracy::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * scale["value"]


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


class InlineScale(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=torch.ops.accuracy.scaled.default):
            node.target, node.args = torch.ops.aten.mul.Tensor, (node.args[0], scale["value"])

    def uuid(self):
        return b"inline-scale"


def layer(x):
    return scaled(torch.sin(x)) + 1.0  # <-


def main():
    inductor.post_grad_custom_post_pass = InlineScale()
    results = []
    for value in (1.0, 3.0):
        scale["value"] = value
        torch.compiler.reset()
        results.append(torch.compile(layer)(torch.linspace(0, 1, 8)))
    return results


if __name__ == "__main__":
    print(main())
