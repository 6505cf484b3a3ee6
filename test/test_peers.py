"""Peers: which cells they are timed in, and that the check of their outputs holds and catches."""

import sys
import tempfile
import unittest
from pathlib import Path

from stubs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import peer_cells

try:
    import torch

    import peer_checks
    import peer_functions
except ImportError:
    torch = None
needs_torch = unittest.skipUnless(torch, "PyTorch is not installed")


class Cells(unittest.TestCase):
    def cells(self, op: str, dtype="bfloat16"):
        return peer_cells.cells_of(op, dtype, peer_cells.GRID + peer_cells.QK_GRID)

    def test_shapes_are_those_of_the_chapters_results(self):
        shapes = {cell.m: cell.shape() for cell in self.cells("qk_norm_rope_quant")}
        self.assertEqual(shapes[4096], [4096, 40, 128])
        self.assertEqual(sorted(shapes), [1, 8, 4096, 32768])
        self.assertIn([4096 * 16384], [cell.shape() for cell in self.cells("scale_add")])
        ropes = [cell.shape() for cell in self.cells("rope")]
        self.assertIn([8192, 32, 128], ropes)
        self.assertNotIn(1, [tokens for tokens, _, _ in ropes])
        self.assertEqual([cell.shape() for cell in self.cells("rms_norm")][-1], [256, 4096])

    def test_other_dtypes_have_one_shape_and_chapter_28_none(self):
        (cell,) = self.cells("rms_norm", "float32")
        self.assertEqual(cell.shape(), [16384, 8192])
        self.assertEqual(self.cells("qk_norm_rope_quant", "float16"), [])

    def test_each_operator_belongs_to_a_chapter(self):
        chapters = {op: {cell.chapter for cell in self.cells(op)} for op in peer_cells.OPS}
        self.assertEqual(chapters.pop("qk_norm_rope_quant"), {"ch28"})
        self.assertEqual(set(map(tuple, chapters.values())), {("ch13",)})

    def test_the_ledger_is_the_chapters_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text(
                '#!/bin/sh\necho "$@" > "$0.asked"\n'
                """echo '{"fused": {"moved_bytes": 3, "flops": 4},"""
                """ "ledger": {"ideal_bytes": 5, "flops": 6}}'\n"""
            )
            program.chmod(0o755)

            def ask(op):
                ledger = peer_cells.fused_ledger(program, self.cells(op)[0])
                return ledger, Path(f"{program}.asked").read_text().strip()

            self.assertEqual(
                ask("rms_norm_rope"),
                (
                    (3, 4),
                    "ledger --op rms_norm_rope --m 4096 --n 4096 --rope-dim 128"
                    " --dtype bfloat16 --convention exact --json",
                ),
            )
            self.assertEqual(
                ask("qk_norm_rope_quant"),
                (
                    (5, 6),
                    "ledger --tokens 4096 --q-heads 32 --kv-heads 8 --head-dim 128"
                    " --convention exact --json",
                ),
            )


@needs_torch
class Checks(unittest.TestCase):
    """The formulas that eager PyTorch and torch.compile are given, on the CPU."""

    def outputs(self, cell):
        inputs = peer_functions.inputs_of(cell, "cpu")
        return inputs, getattr(peer_functions, cell.op)(**inputs)

    def cells(self):
        for op in peer_cells.OPS:
            width = 5120 if op == "qk_norm_rope_quant" else 4096
            for dtype in ("bfloat16",) if op.startswith("qk") else peer_cells.DTYPES:
                yield peer_cells.Cell(op, dtype, 5, width)

    def test_every_formula_is_the_operator(self):
        for cell in self.cells():
            with self.subTest(str(cell)):
                peer_checks.verify(cell, *self.outputs(cell), in_dtype=False)

    def test_one_wrong_element_is_caught(self):
        for cell in self.cells():
            inputs, outputs = self.outputs(cell)
            for name, output in outputs.items():
                with self.subTest(f"{cell}: {name}"):
                    wrong = output.float()
                    place = wrong.abs().flatten().argmax()
                    wrong.view(-1)[place] *= 0.875  # an ulp of the coarsest type is an eighth
                    changed = {**outputs, name: wrong.to(output.dtype)}
                    with self.assertRaises(peer_checks.Wrong):
                        peer_checks.verify(cell, inputs, changed, in_dtype=False)

    def test_q_and_k_have_weights_of_their_own(self):
        cell = peer_cells.Cell("qk_norm_rope_quant", "bfloat16", 5, 5120)
        inputs, _ = self.outputs(cell)
        swapped = {**inputs, "q_weight": inputs["k_weight"], "k_weight": inputs["q_weight"]}
        outputs = peer_functions.qk_norm_rope_quant(**swapped)
        with self.assertRaises(peer_checks.Wrong):
            peer_checks.verify(cell, inputs, outputs, in_dtype=False)

    def test_modes_of_torch_compile_are_peers_of_their_own(self):
        self.assertEqual(peer_functions.title_of("torch.compile"), "torch.compile")
        self.addCleanup(setattr, peer_functions, "COMPILE_MODE", peer_functions.COMPILE_MODE)
        peer_functions.COMPILE_MODE = "max-autotune-no-cudagraphs"
        self.assertEqual(
            peer_functions.title_of("torch.compile"), "torch.compile (max-autotune-no-cudagraphs)"
        )
        self.assertEqual(peer_functions.title_of("eager"), "PyTorch eager")


if __name__ == "__main__":
    unittest.main()
