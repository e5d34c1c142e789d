# truth: scores that are equal to rounding: any of their indices is right, and the chosen scores are equal
# stage: none
# seen: no difference beyond rounding
import torch


def chosen(x, weight):
    scores = torch.softmax(x @ weight, -1)
    best = scores.argmax(-1)
    return best, scores.gather(-1, best[:, None])


def main():
    torch.manual_seed(1)
    half = torch.randn(32, 8)
    return torch.compile(chosen)(torch.randn(64, 32), torch.cat([half, half], 1))


if __name__ == "__main__":
    print(main())
