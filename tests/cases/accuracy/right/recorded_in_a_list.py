# truth: compiled code appends its middle value to a list of the program, as eager mode does
# stage: none
# seen: no difference beyond rounding
import torch

recorded = []


def layer(x):
    hidden = x * 2.0
    recorded.append(hidden.detach())
    return hidden.relu()


def main():
    recorded.clear()
    compiled = torch.compile(layer)
    results = [compiled(torch.tensor([-1.0, value])) for value in (1.0, 2.0)]
    return results, list(recorded)


if __name__ == "__main__":
    print(main())
