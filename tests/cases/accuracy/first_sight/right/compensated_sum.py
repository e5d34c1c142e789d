# truth: the compensation of a sum is rounding and nothing else: contracted multiplications change all of it
# stage: none
# seen: no difference beyond rounding
import torch


def compensated(terms, weights):
    total = torch.zeros_like(terms[0])
    lost = torch.zeros_like(terms[0])
    for term, weight in zip(terms, weights):
        following = term * weight - lost
        summed = total + following
        lost = (summed - total) - following
        total = summed
    return total, lost


def main():
    terms = torch.linspace(0.1, 3.7, 12 * 16).reshape(12, 16).unbind()
    return torch.compile(compensated)(list(terms), [0.1 * step for step in range(1, 13)])


if __name__ == "__main__":
    print(main())
