# truth: a call writes its argument and raises; the write stays, in eager mode and compiled
# stage: none
# seen: no difference beyond rounding
import torch


def guarded(total, x):
    total.add_(x)
    if float(total.max()) > 3.0:
        raise OverflowError("too large")
    return total * 2.0


def main():
    compiled = torch.compile(guarded)
    total, results = torch.zeros(2), []
    for _ in range(4):
        try:
            results.append(compiled(total, torch.ones(2)))
        except OverflowError as error:
            results.append(str(error))
    return results, total


if __name__ == "__main__":
    print(main())
