"""Backends in the text of a user's program."""

WRONG = """\
@register_backend
def wrong(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is torch.sin:
            node.target = torch.cos
    gm.recompile()
    return gm.forward
"""
