# truth: prints break the graph; results are right
# stage: none
# seen: no difference beyond rounding
import torch


def chatty(x):
    hidden = x * 2.0
    print("mean", hidden.mean().item())
    return torch.sin(hidden)


def main():
    compiled = torch.compile(chatty)
    return [compiled(torch.full((3,), float(step))) for step in range(3)]


if __name__ == "__main__":
    print(main())
