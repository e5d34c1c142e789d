# truth: one call raises, in eager mode and compiled; the call after it is right
# stage: none
# seen: no difference beyond rounding
import torch


def logarithm(x):
    if x.min() < 0:
        raise ValueError("negative input")
    return x.log()


def main():
    compiled = torch.compile(logarithm)
    results = []
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 4.0])):
        try:
            results.append(compiled(x))
        except ValueError as error:
            results.append(str(error))
    return results


if __name__ == "__main__":
    print(main())
