# truth: a cached pass has a key for each of its behaviors, so that each compile gets its own code
# stage: none
# seen: no difference beyond rounding
import torch
import torch._inductor.config as inductor
from torch._inductor.custom_graph_pass import CustomGraphPass

aten = torch.ops.aten
form = {"value": "sum"}


class Doubling(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            if node.args[1] == 2.0 and form["value"] == "sum":
                node.target, node.args = aten.add.Tensor, (node.args[0], node.args[0])

    def uuid(self):
        return f"doubling-{form['value']}".encode()


def doubled(x):
    return torch.sin(x) * 2.0 + 1.0


def main():
    inductor.post_grad_custom_post_pass = Doubling()
    results = []
    for value in ("sum", "product", "sum"):
        form["value"] = value
        torch.compiler.reset()
        results.append(torch.compile(doubled)(torch.linspace(0, 2, 12)))
    return results


if __name__ == "__main__":
    print(main())
