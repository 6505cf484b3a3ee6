"""The operators of chapters 13 and 28 in other libraries, as far as they are installed.

A peer is made for one cell: a function without arguments that runs the operator once on inputs
made here and returns its outputs by name. What a library does not have, it does not get.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F

from peer_cells import HEADS, QK_HEADS, ROPE_DIM, Cell
from peer_checks import EPS, SCALE


@dataclass
class Peer:
    """`inputs`: those that the check is to use, as they were before `call` changed any; `joined`
    makes the operator's outputs of what `call` returns, for the check alone."""

    name: str
    call: Callable[[], dict]
    inputs: dict
    in_dtype: bool = False  # rounds products to the dtype
    joined: Callable[[dict], dict] = lambda outputs: outputs


def inputs_of(cell: Cell, device="cuda") -> dict:
    """Rows unlike each other in scale, weights around one, the tables of real positions."""
    dtype = getattr(torch, cell.dtype)
    generator = torch.Generator(device).manual_seed(1)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device=device)

    def uniform(low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=generator, device=device)

    shape = (cell.m, cell.n) if cell.op == "scale_add" else cell.shape()
    scale = torch.exp2(uniform(-3, 3, *shape[:-1], 1))
    x = normal(*shape) * scale
    if cell.op == "layer_norm":  # a mean of the size of the spread
        x += x[:, :1].clone()
    inputs = {"x": x}
    if cell.op == "scale_add":
        inputs["b"] = normal(*shape)
    elif cell.op == "layer_norm":
        inputs.update(g=uniform(0.5, 1.5, cell.n), b=normal(cell.n))
    elif cell.op == "qk_norm_rope_quant":
        inputs.update(q_weight=uniform(0.5, 1.5, ROPE_DIM), k_weight=uniform(0.5, 1.5, ROPE_DIM))
    elif cell.op != "rope":
        inputs["w"] = uniform(0.5, 1.5, cell.n)
    if cell.op == "add_rms_norm":
        inputs["r"] = normal(*shape) * scale
    if "rope" in cell.op:
        pairs = torch.arange(ROPE_DIM // 2, device=device, dtype=torch.float64)
        positions = torch.arange(cell.m, device=device, dtype=torch.float64)
        angles = positions[:, None] * 10000.0 ** (-2 * pairs / ROPE_DIM)
        inputs.update(cos=angles.cos(), sin=angles.sin())
    dtypes = dict.fromkeys(inputs, dtype)
    if cell.op == "qk_norm_rope_quant":
        dtypes["cos"] = dtypes["sin"] = torch.float32
    return {name: tensor.to(dtypes[name]).contiguous() for name, tensor in inputs.items()}


# --- the formulas, for eager PyTorch and torch.compile --------------------------------------------


def scale_add(x, b):
    return {"y": (x.float() * SCALE + b.float()).to(x.dtype)}


def normalised_float(x, w):
    x_float = x.float()
    rstd = torch.rsqrt(x_float.square().mean(-1, keepdim=True) + EPS)
    return x_float * rstd * w.float()


def normalised(x, w):
    return normalised_float(x, w).to(x.dtype)


def rms_norm(x, w):
    return {"y": normalised(x, w)}


def layer_norm(x, g, b):
    return {"y": F.layer_norm(x, g.shape, g, b, EPS)}


def add_rms_norm(x, r, w):
    s = x + r
    return {"s": s, "y": normalised(s, w)}


def rotated(x, cos, sin):
    low, high = x.float().chunk(2, -1)
    c, s = cos.float(), sin.float()
    return torch.cat((low * c - high * s, high * c + low * s), -1).to(x.dtype)


def rope(x, cos, sin):
    return {"y": rotated(x, cos[:, None], sin[:, None])}


def normalised_and_rotated(x, w, cos, sin):
    normed = normalised(x, w)
    width = 2 * cos.shape[-1]
    return torch.cat((normed[:, :-width], rotated(normed[:, -width:], cos, sin)), -1)


def rms_norm_rope(x, w, cos, sin):
    return {"y": normalised_and_rotated(x, w, cos, sin)}


def quantised(y):
    scale = y.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448
    q = (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"q": q, "scale": scale.squeeze(-1)}


def rms_norm_rope_quant(x, w, cos, sin):
    return quantised(normalised_and_rotated(x, w, cos, sin).float())


def qk_norm_rope_quant(x, q_weight, k_weight, cos, sin):
    head = torch.arange(x.shape[1], device=x.device)[:, None]
    weight = torch.where(head < QK_HEADS[0], q_weight, k_weight)  # [heads, dh]
    return quantised(rotated(normalised_float(x, weight), cos[:, None], sin[:, None]))


def eager(cell: Cell, inputs: dict):
    """What PyTorch has a kernel for goes to that kernel, the rest operation by operation."""
    if cell.op == "scale_add":
        out = torch.empty_like(inputs["x"])
        call = lambda: {"y": torch.add(inputs["b"], inputs["x"], alpha=SCALE, out=out)}
    elif cell.op == "rms_norm":
        call = lambda: {"y": F.rms_norm(inputs["x"], (cell.n,), inputs["w"], EPS)}
    else:
        call = lambda: globals()[cell.op](**inputs)
    return Peer("PyTorch eager", call, inputs)


COMPILE_MODE = "default"  # of torch.compile


def compiled(cell: Cell, inputs: dict):
    torch.compiler.reset()  # compiled for this cell's sizes, whatever came before
    function = torch.compile(globals()[cell.op], mode=COMPILE_MODE, dynamic=False, fullgraph=True)
    return Peer(title_of("torch.compile"), lambda: function(**inputs), inputs)


# --- libraries of kernels -------------------------------------------------------------------------


def liger(cell: Cell, inputs: dict):
    x = inputs["x"]
    if cell.op == "rms_norm":
        ops = importlib.import_module("liger_kernel.ops.rms_norm")
        # "gemma": float32 throughout and one rounding, which is the operator as defined here.
        call = lambda: {"y": ops.rms_norm_forward(x, inputs["w"], EPS, 0.0, "gemma", None)[0]}
    elif cell.op == "layer_norm":
        ops = importlib.import_module("liger_kernel.ops.layer_norm")
        call = lambda: {"y": ops.layer_norm_forward(x, inputs["g"], inputs["b"], EPS)[0]}
    elif cell.op == "add_rms_norm":
        ops = importlib.import_module("liger_kernel.ops.fused_add_rms_norm")

        def call():
            y, s, *_ = ops.fused_add_rms_norm_forward(
                x, inputs["r"], inputs["w"], EPS, 0.0, "gemma"
            )
            return {"y": y, "s": s}

    elif cell.op == "rope":
        return liger_rope(cell, inputs)
    else:
        return None
    return Peer("Liger-Kernel", call, inputs)


def liger_rope(cell: Cell, inputs: dict) -> Peer:
    """In place, on half of the heads as q and half as k; it takes tables of full width and reads
    half of them."""
    ops = importlib.import_module("liger_kernel.ops.rope")
    halves = [half.contiguous()[None] for half in inputs["x"].split(HEADS // 2, 1)]
    cos, sin = (torch.cat([inputs[name]] * 2, -1)[None] for name in ("cos", "sin"))

    def call():
        q, k, *_ = ops.rope_forward(*[half.transpose(1, 2) for half in halves], cos, sin)
        return {"q": q, "k": k}

    def joined(outputs):
        return {"y": torch.cat([half[0].transpose(0, 1) for half in outputs.values()], 1)}

    return Peer("Liger-Kernel", call, inputs, in_dtype=True, joined=joined)


def quack(cell: Cell, inputs: dict):
    module = importlib.import_module("quack.rmsnorm")
    forward, x = module._rmsnorm_fwd, inputs["x"]
    out = torch.empty_like(x)
    if cell.op == "rms_norm":

        def call():
            forward(x, inputs["w"], out, None, None, None, None, None, EPS, False, 0.0)
            return {"y": out}

    elif cell.op == "add_rms_norm":
        residual_out = torch.empty_like(x)

        def call():
            forward(
                x, inputs["w"], out, None, None, None, inputs["r"], residual_out, EPS, False, 0.0
            )
            return {"y": out, "s": residual_out}

    elif cell.op == "layer_norm":  # weight and bias in float32: so it wants them
        weight, bias = inputs["g"].float(), inputs["b"].float()

        def call():
            forward(x, weight, out, bias, None, None, None, None, EPS, True, 0.0)
            return {"y": out}

    else:
        return None
    return Peer("quack", call, inputs)


def flashinfer(cell: Cell, inputs: dict):
    module = importlib.import_module("flashinfer.norm")
    if cell.dtype == "float32":
        return None  # 16-bit types alone
    x, w = inputs["x"], inputs.get("w")
    if cell.op == "rms_norm":
        out = torch.empty_like(x)

        def call():
            module.rmsnorm(x, w, EPS, out=out)
            return {"y": out}

    elif cell.op == "add_rms_norm":  # in place: x becomes y, r becomes s
        y, s = x.clone(), inputs["r"].clone()

        def call():
            module.fused_add_rmsnorm(y, s, w, EPS)
            return {"y": y, "s": s}

    else:
        return None
    return Peer("FlashInfer", call, inputs)


def tilelang(cell: Cell, inputs: dict):
    importlib.import_module("tilelang")
    kernels = importlib.import_module("peer_tilelang")
    if cell.op not in ("rms_norm", "rms_norm_rope"):
        return None
    x, y = inputs["x"], torch.empty_like(inputs["x"])
    if cell.op == "rms_norm":
        kernel, arguments = kernels.rms_norm(cell.m, cell.n, cell.dtype, EPS), (x, inputs["w"], y)
    else:
        kernel = kernels.rms_norm_rope(cell.m, cell.n, ROPE_DIM, cell.dtype, EPS)
        arguments = (x, inputs["w"], inputs["cos"], inputs["sin"], y)

    def call():
        kernel(*arguments)
        return {"y": y}

    return Peer("TileLang", call, inputs)


# By the names of --peers: what makes the peer, its name in the results, and its package.
PEERS = {
    "eager": (eager, "PyTorch eager", "torch"),
    "torch.compile": (compiled, "torch.compile", "torch"),
    "liger": (liger, "Liger-Kernel", "liger-kernel"),
    "quack": (quack, "quack", "quack-kernels"),
    "flashinfer": (flashinfer, "FlashInfer", "flashinfer-python"),
    "tilelang": (tilelang, "TileLang", "tilelang"),
}


def title_of(name: str) -> str:
    """The peer's name in the results, with torch.compile's mode where one was chosen."""
    title = PEERS[name][1]
    has_mode = name == "torch.compile" and COMPILE_MODE != "default"
    return f"{title} ({COMPILE_MODE})" if has_mode else title


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
