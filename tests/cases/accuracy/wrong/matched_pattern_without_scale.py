# truth: a pattern registered by the program replaces a scaled product by the product alone
# stage: code
# seen: result 0: eager 6, compiled 12
import torch
import torch._inductor.config as inductor
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern

aten = torch.ops.aten
patterns = PatternMatcherPass()


@register_graph_pattern(
    CallFunction(aten.mul.Tensor, CallFunction(aten.mm.default, KeywordArg("a"), KeywordArg("b")), KeywordArg("scale")),
    pass_dict=patterns,
)
def without_scale(match, a, b, scale):
    match.replace_by_example(lambda a, b: torch.mm(a, b), [a, b])


def scores(query, key):
    return torch.mm(query, key) * 0.5  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = patterns.apply
    return torch.compile(scores)(torch.arange(6.0).reshape(2, 3), torch.ones(3, 2))


if __name__ == "__main__":
    print(main())
