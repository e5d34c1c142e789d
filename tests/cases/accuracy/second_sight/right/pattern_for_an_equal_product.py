# truth: a pattern of the program divides by a reciprocal: the same number but for its last bit
# stage: none
# seen: no difference beyond rounding
import torch
import torch._inductor.config as inductor
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

aten = torch.ops.aten
patterns = PatternMatcherPass()


@register_graph_pattern(
    CallFunction(aten.div.Tensor, KeywordArg("x"), KeywordArg("norm")),
    pass_dict=patterns,
)
def by_reciprocal(match, x, norm):
    match.replace_by_example(lambda x, norm: x * torch.reciprocal(norm), [x, norm])


def normalize(x):
    norm = x.square().sum(-1, keepdim=True).sqrt()
    return x / norm


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_pre_pass = patterns.apply
    return torch.compile(normalize)(torch.linspace(-7, 9, 60).reshape(4, 15))


if __name__ == "__main__":
    print(main())
