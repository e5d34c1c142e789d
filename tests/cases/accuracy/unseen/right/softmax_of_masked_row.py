# truth: a row whose scores are all minus infinity has a NaN in each mode, and the gradients too
# stage: none
# seen: result 1: eager -3.59994e-08, compiled 0
import torch


def attend(scores, mask):
    filled = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(filled, -1)


def main():
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[1] = True
    mask[0, 2] = True
    scores = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
    weights = torch.compile(attend)(scores, mask)
    weights.nansum().backward()
    return weights.detach(), scores.grad


if __name__ == "__main__":
    print(main())
