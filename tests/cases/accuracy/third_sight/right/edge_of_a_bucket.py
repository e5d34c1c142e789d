# truth: right: the number of a bucket lies on a rounding edge, and an index of the largest of equal scores
# stage: none
# seen: result 1: eager 0, compiled 1
import torch


def buckets(prices, scores):
    bucket = torch.floor(prices.exp().log() * 10 / 10 * 7)
    return bucket, (scores.softmax(-1).sum(-1)).floor(), scores.topk(2).values


def main():
    torch.manual_seed(0)
    scores = torch.randn(64, 33)
    return torch.compile(buckets)(torch.arange(1.0, 65.0) / 7, scores)


if __name__ == "__main__":
    print(main())
