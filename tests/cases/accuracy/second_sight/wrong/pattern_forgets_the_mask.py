# truth: a pattern of the program replaces a masked maximum by the maximum of all scores
# stage: code
# seen: result 0: eager 3, compiled 9
import torch
import torch._inductor.config as inductor
from torch._inductor.pattern_matcher import CallFunction, Ignored, KeywordArg, PatternMatcherPass
from torch._inductor.pattern_matcher import register_graph_pattern

aten = torch.ops.aten
patterns = PatternMatcherPass()


@register_graph_pattern(
    CallFunction(
        aten.amax.default,
        CallFunction(aten.where.self, KeywordArg("mask"), KeywordArg("scores"), Ignored()),
        KeywordArg("dim"),
    ),
    pass_dict=patterns,
)
def best_of_all(match, mask, scores, dim):
    match.replace_by_example(lambda scores: aten.amax.default(scores, dim), [scores])


def best(scores, mask):
    weighted = scores * 3.0
    allowed = torch.where(mask, weighted, -1e4)
    return allowed.amax(-1)  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_pre_pass = patterns.apply
    scores = torch.arange(12.0).reshape(3, 4)
    return torch.compile(best)(scores, torch.tensor([True, True, False, False]))


if __name__ == "__main__":
    print(main())
