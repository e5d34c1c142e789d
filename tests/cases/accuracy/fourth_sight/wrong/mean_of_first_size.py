# truth: a pass of the program keeps the factor of a mean from the first size; the second size is divided by the first one's number
# stage: code
# seen: result 1: eager 2, compiled 3.5
import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

torch._inductor.config.fx_graph_cache = False
aten = torch.ops.aten
factors = {}


class MeanAsSum(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.mean.dim):
            source, dims = node.args[:2]
            size = source.meta["val"].shape[dims[0]]
            factor = factors.setdefault(node.name, 1.0 / size)
            with graph.inserting_before(node):
                total = graph.call_function(aten.sum.dim_IntList, (source, dims))
                scaled = graph.call_function(aten.mul.Tensor, (total, factor))
            node.replace_all_uses_with(scaled)
            graph.erase_node(node)

    def uuid(self):
        return "mean as sum"


torch._inductor.config.post_grad_custom_pre_pass = MeanAsSum()


def pooled(x):
    level = x.exp()
    return level.mean(0) + 1  # <-


def main():
    compiled = torch.compile(pooled, dynamic=False)
    return compiled(torch.zeros(4, 3)), compiled(torch.zeros(10, 3))


if __name__ == "__main__":
    print(main())
