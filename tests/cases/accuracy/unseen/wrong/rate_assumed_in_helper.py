# truth: a helper that is assumed to be constant reads a step counter that the program advances
# stage: capture
# seen: result 1: eager 0.775, compiled 0.85; result 2: eager 0.55, compiled 0.775
import torch

progress = {"step": 0}


@torch.compiler.assume_constant_result
def warmup():
    return min(1.0, (progress["step"] + 1) / 4)


def scaled(grad):
    return grad * warmup()  # <-


def update(weight, grad):
    direction = scaled(grad)
    return weight - 0.1 * direction


def main():
    progress["step"] = 0
    compiled = torch.compile(update)
    weight = torch.ones(4)
    results = []
    for _ in range(3):
        weight = compiled(weight, torch.arange(4.0))
        progress["step"] += 1
        results.append(weight)
    return results


if __name__ == "__main__":
    print(main())
