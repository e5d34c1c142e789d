# truth: the graph of an operator of the program is taken from the cache with the limit of the first compile in it
# stage: caches
# seen: result 1: eager 7, compiled 2
import torch

limit = {"value": 1.5}
library = torch.library.Library("accuracy_limit", "DEF")
library.define("limited(Tensor x) -> Tensor")


@torch.library.impl(library, "limited", "CompositeImplicitAutograd")
def limited(x):
    return x.clamp_max(limit["value"])


def respond(x):
    grown = torch.exp(x)
    kept = torch.ops.accuracy_limit.limited(grown)  # <-
    return kept * 2.0 - 1.0


def main():
    results = []
    for value in (1.5, 4.0):
        limit["value"] = value
        torch.compiler.reset()
        results.append(torch.compile(respond)(torch.linspace(-1, 3, 9)))
    return results


if __name__ == "__main__":
    print(main())
