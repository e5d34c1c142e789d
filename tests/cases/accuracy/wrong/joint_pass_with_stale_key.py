# truth: a joint-graph pass reads the program's mode, its cache key does not: evaluation runs the code of training
# stage: caches
# seen: result 1: eager 1.22671, compiled 2.22671
import torch
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass

mode = {"training": True}


@torch.library.custom_op("accuracy::noisy", mutates_args=())
def noisy(x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    return x + noise if mode["training"] else x.clone()


@noisy.register_fake
def _(x, noise):
    return torch.empty_like(x)


class InlineNoise(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=torch.ops.accuracy.noisy.default):
            node.target = torch.ops.aten.add.Tensor
            if not mode["training"]:
                node.target, node.args = torch.ops.aten.clone.default, node.args[:1]

    def uuid(self):
        return b"inline-noise"


def layer(x, noise):
    return noisy(torch.tanh(x), noise) * 2.0  # <-


def main():
    inductor.joint_custom_post_pass = InlineNoise()
    results = []
    for training in (True, False):
        mode["training"] = training
        torch.compiler.reset()
        results.append(torch.compile(layer)(torch.linspace(0, 1, 8), torch.full((8,), 0.5)))
    return results


if __name__ == "__main__":
    print(main())
