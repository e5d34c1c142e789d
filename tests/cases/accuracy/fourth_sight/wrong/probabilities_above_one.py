# truth: bernoulli raises for a probability above one in eager mode, which the program clamps and draws again; compiled code draws without a check
# stage: decomposition
# seen: result 1: eager clamped, compiled drawn at once
import torch


def kept(probabilities):
    return torch.bernoulli(probabilities)  # <-


def main():
    compiled = torch.compile(kept)
    probabilities = torch.tensor([0.0, 1.0, 1.5])
    try:
        return compiled(probabilities), "drawn at once"
    except RuntimeError:
        return compiled(probabilities.clamp(0, 1)), "clamped"


if __name__ == "__main__":
    print(main())
