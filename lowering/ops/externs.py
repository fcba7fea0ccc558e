"""Ops left to ATen, each with the reason, which `explain` repeats."""

from __future__ import annotations

import torch
from torch.fx import Node

from .pointwise import refuse_dtypes

LIBRARY = "a tuned library call computes it better than a generated kernel"
RANDOM = "random numbers come from ATen, so that the generator's stream is eager's"
SEQUENTIAL = "inherently sequential"
DATA_DEPENDENT = "the size of the result depends on data"
DATA_LOOP = "each element is a loop as long as its arguments say"
MASKED = "which element it takes depends on how many a mask picked before"
ONE_ROW = "its many updates may all meet in one place, so that one work-item would make them in order: ATen is faster"
NO_PLACE = "its result has no elements: ATen reports the indexes out of range"
FREQUENCY = "counts how often each index occurs before it starts"
HIGHER_ORDER = "control flow is kept; its bodies are compiled as graphs of their own"
MUTATION = "writes to its argument"
OWN_MEMORY = "writes to memory that is no input of the graph"
OVERLAPPING = "several elements of its destination share one place"
READS_DESTINATION = "reads what it writes to at other places"
HALF_SUMS = "ATen adds half types up in float32, which a kernel could not keep from one update to the next"
COLLECTIVE = "torch.distributed is the engine of collectives"
DELIBERATE = frozenset({
    LIBRARY, RANDOM, SEQUENTIAL, DATA_DEPENDENT, DATA_LOOP, MASKED, ONE_ROW, NO_PLACE, FREQUENCY, HIGHER_ORDER,
    MUTATION, COLLECTIVE, OWN_MEMORY, OVERLAPPING, READS_DESTINATION, HALF_SUMS,
})  # fmt: skip
"""Reasons that are choices: ATen is the right place for these ops, so they count as no fallback."""

UNKNOWN = "no row in the op table yet"

_LIBRARY_PREFIXES = (
    "linalg_",
    "_linalg_",
    "_fft_",
    "_scaled_dot_product_",
    "mkldnn_",
    "_histogramdd_",
    "_embedding_bag",
    "_flex_",
    "quantized_",
)

_BY_NAME: dict[str, tuple[str, ...]] = {
    LIBRARY: (
        "mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot", "matmul", "linear", "convolution",
        "convolution_backward",
        "_cdist_forward", "_cdist_backward", "_pdist_forward", "_pdist_backward", "_int_mm", "_trilinear",
        "_thnn_fused_lstm_cell", "_ctc_loss",
        "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "searchsorted", "bucketize", "histc", "histogram",
        "bincount", "lu_unpack",
        "cholesky", "cholesky_solve", "cholesky_inverse", "geqrf", "ormqr", "orgqr", "triangular_solve",
        "embedding_renorm", "segment_reduce",
        "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d",
        "max_unpool2d", "max_unpool3d",
        "_adaptive_avg_pool3d", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
        "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
        "grid_sampler_2d_backward", "grid_sampler_3d", "grid_sampler_3d_backward", "upsample_bicubic2d_backward",
        "upsample_bilinear2d_backward",
        "upsample_linear1d_backward", "upsample_nearest1d_backward", "upsample_nearest2d_backward",
        "upsample_nearest3d_backward",
        "upsample_trilinear3d_backward", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa",
    ),
    RANDOM: ("rand", "randn", "randint", "randperm", "bernoulli", "normal", "uniform", "multinomial", "poisson",
             "binomial", "native_dropout",
             "rand_like", "randn_like", "randint_like", "exponential", "geometric", "cauchy", "log_normal", "random",
             "rrelu_with_noise_functional",
             "_sample_dirichlet", "_standard_gamma"),
    DATA_DEPENDENT: ("nonzero", "_local_scalar_dense", "masked_select", "unique_consecutive", "_unique2",
                     "unique_dim", "repeat_interleave", "item",
                     "nonzero_static"),
    DATA_LOOP: ("igamma", "igammac", "special_zeta", "special_chebyshev_polynomial_t",
                "special_chebyshev_polynomial_u", "special_chebyshev_polynomial_v",
                "special_chebyshev_polynomial_w", "special_hermite_polynomial_h", "special_hermite_polynomial_he",
                "special_laguerre_polynomial_l",
                "special_legendre_polynomial_p", "special_shifted_chebyshev_polynomial_t",
                "special_shifted_chebyshev_polynomial_u",
                "special_shifted_chebyshev_polynomial_v", "special_shifted_chebyshev_polynomial_w", "gcd", "lcm",
                "zeta"),
    MASKED: ("masked_scatter", "_unsafe_masked_index_put_accumulate"),
    SEQUENTIAL: ("hash_tensor", "_weight_norm_differentiable_backward"),
}  # fmt: skip
_REASONS = {name: reason for reason, names in _BY_NAME.items() for name in names}


def reason_for(node: Node) -> str:
    """Why the op of ``node`` has no row in the table."""
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return HIGHER_ORDER
    if not isinstance(target, torch._ops.OpOverload):
        return UNKNOWN
    if target._schema.is_mutable:
        return MUTATION
    name = target._schema.name.partition("::")[2]
    tuned = target.namespace == "mkldnn" or name.startswith(_LIBRARY_PREFIXES)
    known = _REASONS.get(name) or (LIBRARY if tuned else None)
    if known is not None:
        return known
    if target.namespace == "_c10d_functional":
        return COLLECTIVE
    if target.namespace not in ("aten", "prims"):
        return f"an op of the library {target.namespace}"
    return refuse_dtypes(node) or UNKNOWN
