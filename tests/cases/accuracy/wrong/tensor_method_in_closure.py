# truth: closures over two methods of Tensor share one graph: the second one multiplies where it must divide
# stage: capture
# seen: result 1: eager 2, compiled 18
import torch


def combine_with(method):
    def combine(left, right):
        return method(left, right)  # <-

    return combine


def main():
    left, right = torch.tensor([8.0, 6.0]), torch.tensor([2.0, 3.0])
    product = torch.compile(combine_with(torch.Tensor.mul))
    quotient = torch.compile(combine_with(torch.Tensor.div))
    return product(left, right), quotient(left, right)


if __name__ == "__main__":
    print(main())
