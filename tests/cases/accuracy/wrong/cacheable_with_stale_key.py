# truth: a function is marked as cacheable with one key for two behaviors; the second compile gets the first one's code
# stage: caches
# seen: result 1: eager 4, compiled 2
import torch
import torch._inductor.config as inductor

order = {"power": 2}


@torch.compiler.allow_in_graph
def raised(x):
    return x.pow(order["power"])


def energy(x):
    return raised(x) * 0.5  # <-


def main():
    inductor.unsafe_marked_cacheable_functions = {f"{__name__}.raised": "raised"}
    results = []
    for power in (2, 3):
        order["power"] = power
        torch.compiler.reset()
        results.append(torch.compile(energy)(torch.linspace(1, 2, 8)))
    return results


if __name__ == "__main__":
    print(main())
