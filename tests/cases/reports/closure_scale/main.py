"""A step takes a score function, which a factory makes for each layer with its own bias."""
import torch


def make_score(scale, bias):
    def score(x):
        return x * scale + bias  # warning: [FL201] "recompiled: bias was 0.0, now 0.5"

    return score


@torch.compile(backend="eager")
def attend(score, q, k, v):
    weights = score(q @ k.transpose(-2, -1)).softmax(dim=-1)
    return weights @ v


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 6, 8) for _ in range(3))
    for layer in range(5):
        out = attend(make_score(0.25, 0.5 * layer), q, k, v)
    print(out.shape)
