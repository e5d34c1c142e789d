"""Names of torch by what they return: lists that the rules read, nothing else.

Invariant: a name is in a list only if each call of it that is legal returns what the list says.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


METHODS = _words(
    """
    abs add add_ addmm addcmul argmax argmin argsort bmm bfloat16 bool ceil clamp clamp_ clamp_max clamp_min clone
    contiguous copy_ cos cpu cumprod cumsum detach div div_ double dropout eq exp expand expand_as fill_ flatten flip
    float floor gather ge gelu gt half index_add index_select int isfinite isinf isnan le log log1p log2 log_softmax
    logical_and logical_not logical_or long logsumexp lt masked_fill masked_fill_ matmul mean mm movedim mul mul_ ne
    neg new_empty new_full new_ones new_tensor new_zeros permute pow prod reciprocal relu relu_ repeat reshape roll
    round rsqrt scatter scatter_add select sigmoid sign sin softmax sqrt square squeeze std sub sub_ sum swapaxes t
    tanh tile to transpose tril triu type_as unsqueeze var view view_as zero_ zeros_like
    """
)
"""Methods of a tensor that return one tensor whatever their arguments are."""
REDUCTIONS = _words(
    """
    all any max min median amax amin norm
    """
)
"""Methods and functions that return one tensor if they get no dimension."""
DTYPES = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "bfloat16": "bf16",
    "long": "i64",
    "int": "i32",
    "argmax": "i64",
    "argmin": "i64",
    "argsort": "i64",
}
"""The dtype that some methods return."""
TOTALS = frozenset({"sum", "mean", "prod", "argmax", "argmin"})
"""Those that return one element if they get no dimension."""
SAME_DTYPE = _words(
    """
    abs clone contiguous detach expand expand_as flatten flip permute reshape repeat roll select squeeze t transpose
    unsqueeze view view_as clamp cumsum masked_fill relu softmax sqrt square tanh tril triu
    """
)
MASKS = _words(
    """
    bool eq ne lt le gt ge isnan isinf isfinite logical_and logical_not logical_or all any
    """
)
FUNCTIONS = METHODS | _words(
    """
    arange as_tensor bernoulli cat concat einsum empty empty_like erf eye full full_like isclose linspace maximum
    minimum normal ones ones_like rand rand_like randint randn randn_like randperm stack tensor zeros outer
    sigmoid addbmm baddbmm cdist hstack vstack
    """
)
ACTIVATIONS = _words(
    """
    relu gelu silu softmax log_softmax dropout linear layer_norm normalize pad sigmoid tanh elu leaky_relu softplus
    mish hardswish conv1d conv2d embedding mse_loss cross_entropy scaled_dot_product_attention interpolate
    group_norm batch_norm rms_norm avg_pool2d adaptive_avg_pool2d
    """
)
FACTORIES = _words(
    """
    empty empty_like ones ones_like zeros zeros_like rand rand_like randn randn_like
    """
)
