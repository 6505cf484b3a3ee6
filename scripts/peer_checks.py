"""What a peer's outputs must be: references in float64, and how far each output may lie from them.

A peer may keep an intermediate in float32 or round it to the dtype, as long as it says nowhere what
it does: `slack` covers both, and the float32 arithmetic. On top of it an output may be off by the
half ulp of its own rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from peer_cells import QK_HEADS

EPS = 1e-6
SCALE = 0.7
UNIT = 2.0**-24  # float32's unit roundoff
LANES = 32  # threads that share a row, at least
CHECKED_ROWS = 256

SIGNIFICAND_BITS = {
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
    torch.float8_e4m3fn: 4,
}
LEAST_EXPONENT = {
    torch.float32: -126,
    torch.float16: -14,
    torch.bfloat16: -126,
    torch.float8_e4m3fn: -6,
}


@dataclass
class Expected:
    """An output before its rounding to `dtype`, and how far what comes before may move it."""

    value: torch.Tensor
    slack: torch.Tensor
    dtype: torch.dtype


class Wrong(Exception):
    """An output that is not what the operator says."""


def ulp(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance between neighbouring numbers of `dtype` at |value|, in float64."""
    exponent = (torch.frexp(value.double()).exponent - 1).clamp(min=LEAST_EXPONENT[dtype])
    return torch.exp2((exponent - (SIGNIFICAND_BITS[dtype] - 1)).double())


def checked_rows(rows: int, device) -> torch.Tensor:
    """The first rows, the last, and others spread between them."""
    count = min(rows, CHECKED_ROWS)
    return torch.linspace(0, rows - 1, count, device=device, dtype=torch.float64).round().long()


def check(name: str, actual: torch.Tensor, expected: Expected) -> float:
    """The largest error in ulps; raises Wrong. NaN fails."""
    value, out = expected.value, actual.double()
    if actual.dtype != expected.dtype or out.shape != value.shape:
        raise Wrong(
            f"{name}: {actual.dtype} {list(out.shape)} where {expected.dtype} "
            f"{list(value.shape)} belongs"
        )
    # The half ulp is that of the number before its rounding, which may lie a slack further out.
    allowed = 0.5 * ulp(value.abs() + expected.slack, expected.dtype) + expected.slack
    error = (out - value).abs()
    ulps = error / ulp(value, expected.dtype)
    bad = ~(error <= allowed)
    if bad.any():
        i = int(bad.flatten().nonzero()[0])
        got, wanted = out.flatten()[i].item(), value.flatten()[i].item()
        raise Wrong(
            f"{name}: {int(bad.sum())} of {bad.numel()} wrong; the first is {got:.9g} where "
            f"{wanted:.9g} belongs, {ulps.flatten()[i].item():.3g} ulp"
        )
    return ulps.max().item()


# --- references: inputs of the checked rows, in float64 -------------------------------------------


def sum_error(n: int) -> float:
    """Relative error of a float32 sum of n terms: LANES partial sums, then a tree over them."""
    return (-(-n // LANES) + 6) * UNIT


def half_ulp(dtype: torch.dtype) -> float:
    """The relative error of one rounding to `dtype`, at most."""
    return 2.0 ** -SIGNIFICAND_BITS[dtype]


def scale_add(x, b, dtype) -> dict:
    product = x * torch.tensor(SCALE, dtype=torch.float32).item()
    slack = UNIT * (product.abs() + (product + b).abs())  # of the product, then of the sum
    return {"y": Expected(product + b, slack, dtype)}


def normalised(x, w) -> tuple:
    """RMSNorm, and its error in float32: half the sum's, then rsqrt (two ulps) and products."""
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * w
    return y, y.abs() * (sum_error(x.shape[-1]) / 2 + 8 * UNIT)


def rms_norm(x, w, dtype) -> dict:
    return {"y": Expected(*normalised(x, w), dtype)}


def add_rms_norm(x, r, w, dtype) -> dict:
    s = x + r
    y, slack = normalised(s, w)
    # y of s before or after its rounding, which moves an element and, at worst as much, rstd.
    slack = slack + 2 * half_ulp(dtype) * y.abs()
    return {"s": Expected(s, UNIT * s.abs(), dtype), "y": Expected(y, slack, dtype)}


def layer_norm(x, g, b, dtype) -> dict:
    """The mean's error is relative to the mean of |x|. The variance's grows with the condition
    number (Chan, Golub and LeVeque, 1983), four roundings a step of Welford's recurrence."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    rstd = torch.rsqrt(variance + EPS)
    scaled = (x - mean) * rstd * g
    condition = torch.sqrt(1 + mean.square() / (variance + EPS))
    error = sum_error(x.shape[-1])
    slack = error * x.abs().mean(-1, keepdim=True) * rstd * g.abs()
    slack = slack + scaled.abs() * (2 * error * condition + 8 * UNIT)
    return {"y": Expected(scaled + b, slack, dtype)}


def rotated(x, slack, cos, sin) -> tuple:
    """NeoX rotation of the last columns, as many as cos and sin together have; and its error."""
    half = cos.shape[-1]
    head, low, high = x.split([x.shape[-1] - 2 * half, half, half], -1)
    head_slack, low_slack, high_slack = slack.split([x.shape[-1] - 2 * half, half, half], -1)
    y = torch.cat((head, low * cos - high * sin, high * cos + low * sin), -1)
    c, s = cos.abs(), sin.abs()
    low_size, high_size = low.abs() * c + high.abs() * s, high.abs() * c + low.abs() * s
    turned = (
        low_slack * c + high_slack * s + 2 * UNIT * low_size,
        high_slack * c + low_slack * s + 2 * UNIT * high_size,
    )
    return y, torch.cat((head_slack, *turned), -1)


def rope(x, cos, sin, dtype, in_dtype: bool) -> dict:
    """`in_dtype`: the products are rounded to the dtype before they are added."""
    cos, sin = cos[:, None], sin[:, None]
    y, slack = rotated(x, torch.zeros_like(x), cos, sin)
    if in_dtype:
        slack = slack * (half_ulp(dtype) / UNIT)
    return {"y": Expected(y, slack, dtype)}


def rms_norm_rope(x, w, cos, sin, dtype) -> dict:
    normed, slack = normalised(x, w)
    tail = torch.zeros_like(normed)  # only what is turned is rounded between the two
    width = 2 * cos.shape[-1]
    tail[..., -width:] = half_ulp(dtype) * normed[..., -width:].abs()
    return {"y": Expected(*rotated(normed, slack + tail, cos, sin), dtype)}


def quantised(y, slack, scale) -> dict:
    """Codes are held against y over the scale that came out. A quotient may be two ulps off: that
    of Triton is, and so is a product with the reciprocal."""
    amax = y.abs().amax(-1).clamp(min=1e-4)
    expected = Expected(amax / 448, (slack.amax(-1) + 4 * UNIT * amax) / 448, torch.float32)
    divisor = scale.double()[..., None]
    ratio = y / divisor
    codes = Expected(
        ratio.clamp(-448, 448), slack / divisor + 4 * UNIT * ratio.abs(), torch.float8_e4m3fn
    )
    return {"scale": expected, "q": codes}


def rms_norm_rope_quant(x, w, cos, sin, dtype, scale) -> dict:
    """y may be rounded before it is quantised, or not."""
    y = rms_norm_rope(x, w, cos, sin, dtype)["y"]
    return quantised(y.value, y.slack + half_ulp(dtype) * (y.value.abs() + y.slack), scale)


def qk_norm_rope_quant(x, q_weight, k_weight, cos, sin, dtype, scale) -> dict:
    """Nothing is rounded before the codes. A scale a head: [tokens, heads]."""
    q_heads = QK_HEADS[0]
    parts = [normalised(x[:, :q_heads], q_weight), normalised(x[:, q_heads:], k_weight)]
    normed, slack = (torch.cat(both, 1) for both in zip(*parts))
    return quantised(*rotated(normed, slack, cos[:, None], sin[:, None]), scale)


def rows_of(tensor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Float8 is indexed as what it is stored in."""
    if tensor.dtype != torch.float8_e4m3fn:
        return tensor[rows]
    return tensor.view(torch.uint8)[rows].view(tensor.dtype)


def verify(cell, inputs: dict, outputs: dict, in_dtype: bool):
    """Holds a peer's outputs against the reference and returns the largest error in ulps of the
    dtype: of the outputs that are in it, None where none is. Raises Wrong."""
    dtype = inputs["x"].dtype
    by_row = {"x", "r", "cos", "sin"} | ({"b"} if cell.op == "scale_add" else set())
    rows = checked_rows(cell.m, inputs["x"].device)
    given = {k: (v[rows] if k in by_row else v).double() for k, v in inputs.items()}
    out = {k: rows_of(v, rows) for k, v in outputs.items()}
    if cell.op == "rope":
        expected = rope(**given, dtype=dtype, in_dtype=in_dtype)
    elif cell.op.endswith("_quant"):
        expected = globals()[cell.op](**given, dtype=dtype, scale=out["scale"])
    else:
        expected = globals()[cell.op](**given, dtype=dtype)
    worst = {name: check(name, out[name], one) for name, one in expected.items()}
    return max((worst[name] for name in worst if name in ("y", "s")), default=None)
