"""Ops left to ATen on purpose, each with the reason, which `explain` repeats."""

from __future__ import annotations

import torch
from torch.fx import Node

LIBRARY = "a tuned library call computes it better than a generated kernel"
RANDOM = "random numbers come from ATen, so that the generator's stream is eager's"
SEQUENTIAL = "inherently sequential"
DATA_DEPENDENT = "the size of the result depends on data"
HIGHER_ORDER = "control flow is kept; its bodies are compiled as graphs of their own"
MUTATION = "writes to its argument"
UNKNOWN = "no row in the op table yet"
DELIBERATE = frozenset({LIBRARY, RANDOM, SEQUENTIAL, DATA_DEPENDENT, HIGHER_ORDER, MUTATION})
"""Reasons that are choices: ATen is the right place for these ops, so they count as no fallback."""

_BY_NAME: dict[str, tuple[str, ...]] = {
    LIBRARY: (
        "mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "vdot", "matmul", "linear", "convolution", "convolution_backward",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_attention_math_for_mps", "_scaled_dot_product_efficient_attention", "_scaled_dot_product_fused_attention_overrideable",
        "_fft_c2c", "_fft_r2c", "_fft_c2r", "_cdist_forward", "_cdist_backward", "_pdist_forward", "_int_mm", "_thnn_fused_lstm_cell", "mkldnn_rnn_layer",
        "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "searchsorted", "unique_dim", "histc", "bincount", "linalg_svd", "_linalg_svd",
        "linalg_qr", "linalg_cholesky_ex", "linalg_inv_ex", "linalg_lu", "linalg_lu_factor_ex", "linalg_solve_triangular", "_linalg_solve_ex",
        "_linalg_det", "_linalg_slogdet", "_linalg_eigh", "linalg_eig", "linalg_lstsq", "cholesky_inverse", "geqrf", "ormqr", "triangular_solve",
    ),
    RANDOM: ("rand", "randn", "randint", "randperm", "bernoulli", "normal", "uniform", "multinomial", "poisson", "binomial", "native_dropout",
             "rand_like", "randn_like", "randint_like", "exponential", "geometric", "cauchy", "log_normal", "random", "rrelu_with_noise_functional",
             "_sample_dirichlet", "_standard_gamma"),
    DATA_DEPENDENT: ("nonzero", "_local_scalar_dense", "masked_select", "unique_consecutive", "_unique2", "repeat_interleave", "item", "nonzero_static"),
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
    if target.namespace not in ("aten", "prims"):
        return f"an op of the library {target.namespace}"
    return _REASONS.get(target._schema.name.partition("::")[2], UNKNOWN)
