"""The cells that peers are timed in: those of `ch13 bench --device cuda`, and of design D those of
`ch28 bench --device cuda` that the book speaks of."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

ROPE_DIM = 128
HEADS = 32
GRID = (
    (4096, 4096),
    (16384, 4096),
    (16384, 8192),
    (4096, 16384),
    (65536, 1024),
    (8192, 32768),
    (1, 4096),
    (256, 4096),
)
QK_HEADS = (32, 8)  # of q and of k
QK_GRID = tuple((tokens, sum(QK_HEADS) * ROPE_DIM) for tokens in (4096, 32768, 1, 8))
EVERY_DTYPE = (16384, 8192)  # the shape that float16 and float32 have as well
DTYPES = ("bfloat16", "float16", "float32")
OPS = (
    "scale_add",
    "rms_norm",
    "layer_norm",
    "rope",
    "rms_norm_rope",
    "rms_norm_rope_quant",
    "add_rms_norm",
    "qk_norm_rope_quant",
)


@dataclass(frozen=True)
class Cell:
    """An operator on `m` rows of `n`; rope and qk_norm_rope_quant have m tokens of n / ROPE_DIM
    heads, scale_add m*n elements."""

    op: str
    dtype: str
    m: int
    n: int

    @property
    def chapter(self) -> str:
        return "ch28" if self.op.startswith("qk_") else "ch13"

    def shape(self) -> list:
        if self.op == "scale_add":
            return [self.m * self.n]
        if self.op in ("rope", "qk_norm_rope_quant"):
            return [self.m, self.n // ROPE_DIM, ROPE_DIM]
        return [self.m, self.n]

    def sizes(self) -> list:
        """The sizes as the program's flags."""
        if self.op == "scale_add":
            return ["--n", str(self.m * self.n)]
        if self.op == "rope":
            return f"--tokens {self.m} --heads {HEADS} --rope-dim {ROPE_DIM}".split()
        sizes = ["--m", str(self.m), "--n", str(self.n)]
        return sizes + ["--rope-dim", str(ROPE_DIM)] if "rope" in self.op else sizes

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} {' x '.join(map(str, self.shape()))}"


def cells_of(op: str, dtype: str, grid) -> list:
    """One operator's cells among `grid`."""
    if op == "qk_norm_rope_quant":
        shapes = [shape for shape in grid if shape in QK_GRID]
        return [Cell(op, dtype, *shape) for shape in shapes if dtype == "bfloat16"]
    shapes = [shape for shape in grid if shape in GRID]
    if dtype != "bfloat16":
        shapes = [shape for shape in shapes if shape == EVERY_DTYPE]
    if op != "rope":
        return [Cell(op, dtype, *shape) for shape in shapes]
    width = HEADS * ROPE_DIM
    tokens = [m * n // width for m, n in shapes if m > 1]
    if dtype == "bfloat16" and (4096, 4096) in shapes:
        tokens.append(8192)
    return [Cell(op, dtype, count, width) for count in dict.fromkeys(tokens)]


def fused_ledger(program, cell: Cell) -> tuple:
    """Bytes and FLOPs of the fused plan by the exact ledger, as the chapter's program has them."""
    if cell.chapter == "ch28":
        q_heads, k_heads = map(str, QK_HEADS)
        flags = ["--tokens", str(cell.m), "--q-heads", q_heads, "--kv-heads", k_heads]
        flags += ["--head-dim", str(ROPE_DIM)]
    else:
        flags = ["--op", cell.op, *cell.sizes(), "--dtype", cell.dtype]
    done = subprocess.run(
        [program, "ledger", *flags, "--convention", "exact", "--json"],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    document = json.loads(done.stdout)
    if cell.chapter == "ch28":
        return document["ledger"]["ideal_bytes"], document["ledger"]["flops"]
    return document["fused"]["moved_bytes"], document["fused"]["flops"]
