"""The roofline: what is read, what is refused, and how it comes out."""

import copy
import os
import sys
import unittest

from stubs import ROOT
from test_plots import PYTHON, Folder, needs_matplotlib

sys.path.insert(0, str(ROOT / "scripts"))
import plot_data
import plot_roofline_data

SCRIPT = ROOT / "scripts" / "plot_roofline.py"
MACHINE = {
    "name": "A GPU that cost $5",
    "kind": "measured",
    "source": "a test",
    "bandwidth_gbs": {"copy": 4000, "read": 4400},
    "peak_tflops": {"fp32": 60, "fp64": 30, "bf16": 700, "fp16": 700},
    "sms": 1,
    "on_chip_bytes_per_block": 1,
    "on_chip_bytes_per_sm": 1,
    "l2_bytes": 1,
}
OPS = ("scale_add", "rms_norm", "rms_norm_rope_quant", "rope", "layer_norm")


def results(count: int) -> dict:
    """`count` series under the roof, many of them as good as at one point."""
    rows = []
    for i in range(count):
        moved = 10**8
        rows.append(
            {
                "op": OPS[i % 5],
                "shape": [4096 + i // 5, 4096],
                "dtype": "bfloat16",
                "plan": ("unfused", "fused")[i % 2],
                "bytes": moved,
                "flops": moved * (1 + i % 4) // 4,
                "median_us": 30.0 + i % 7,
            }
        )
    return {"schema": 1, "machine": {"name": "A GPU"}, "rows": rows}


def sweep() -> dict:
    """A chain of 13 lengths that bends."""
    rows = []
    for i in range(13):
        n, k = 10**8, 1 << i
        us = max(8 * n / 4e6, 2 * k * n / 60e6) * 1.05
        rows.append(
            {
                "op": f"multiply_add_chain (k {k})",
                "shape": [n],
                "dtype": "float32",
                "plan": "fused",
                "bytes": 8 * n,
                "flops": 2 * k * n,
                "median_us": us,
            }
        )
    return {"schema": 1, "machine": {"name": "A GPU"}, "rows": rows}


def ledger(count: int) -> dict:
    plan = {"moved_bytes": 200, "flops": 50}
    case = {"op": "rope", "args": {"tokens": 1}, "unfused": plan, "fused": {**plan, "flops": 100}}
    return {"cases": [case] * count}


class Reading(unittest.TestCase):
    def test_a_measured_machine_has_its_copy_for_a_roof_a_data_sheet_its_peak(self):
        with Folder() as folder:
            machine = plot_roofline_data.load_machine(folder.write("m.json", MACHINE))
            self.assertEqual((machine.mix, machine.gb_per_s), ("copy", 4000))
            self.assertEqual(list(machine.tflops), ["fp64", "fp32", "fp16", "bf16"])
            self.assertEqual(machine.gflops_at(1, "fp32"), 4000)
            self.assertEqual(machine.gflops_at(1000, "fp32"), 60000)
            sheet = {**MACHINE, "kind": "data_sheet", "bandwidth_gbs": {"peak": 4800}}
            machine = plot_roofline_data.load_machine(folder.write("s.json", sheet))
            self.assertEqual((machine.how, machine.mix), ("data sheet", "peak"))

    def test_every_machine_that_ships_is_read(self):
        for path in sorted((ROOT / "common" / "machines").glob("*.json")):
            with self.subTest(path.name):
                self.assertGreater(plot_roofline_data.load_machine(path).tflops["fp32"], 0)

    def test_a_row_is_a_point_by_its_flops_bytes_and_time(self):
        with Folder() as folder:
            series = plot_roofline_data.load_series(folder.write("r.json", results(2)))
        self.assertEqual([one.label for one in series][0], "scale_add, unfused, bfloat16")
        (point,) = series[0].points
        self.assertEqual(point.intensity, 0.25)
        self.assertAlmostEqual(point.gflops, 25e6 / 30 / 1e3)

    def test_shapes_are_named_where_they_tell_rows_apart(self):
        with Folder() as folder:
            series = plot_roofline_data.load_series(folder.write("r.json", results(20)))
        labels = [one.label for one in series]
        self.assertEqual(len(set(labels)), 20)
        self.assertIn("rms_norm, fused, bfloat16, 4096 x 4096", labels)

    def test_a_chain_at_several_lengths_is_one_curve(self):
        with Folder() as folder:
            (series,) = plot_roofline_data.load_series(folder.write("s.json", sweep()))
        self.assertEqual(series.label, "multiply_add_chain, fused, float32")
        intensities = [point.intensity for point in series.points]
        self.assertEqual(intensities, [(1 << i) / 4 for i in range(13)])

    def test_a_ledger_has_points_without_times_and_a_copy_none(self):
        with Folder() as folder:
            unfused, fused = plot_roofline_data.load_series(folder.write("l.json", ledger(1)))
            self.assertEqual(unfused.points[0].intensity, 0.25)
            self.assertIsNone(fused.points[0].gflops)
            copy_row = results(1)
            copy_row["rows"][0]["flops"] = 0
            self.assertEqual(plot_roofline_data.load_series(folder.write("c.json", copy_row)), [])

    def test_what_is_wrong_is_named(self):
        def refused(document, expected, load=plot_roofline_data.load_machine):
            with Folder() as folder, self.assertRaises(plot_data.Refused) as caught:
                load(folder.write("m.json", document))
            self.assertIn(expected, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

        refused({**MACHINE, "kind": "guessed"}, 'kind: got "guessed"; allowed: measured')
        for field in ("name", "kind", "bandwidth_gbs", "peak_tflops"):
            lacking = copy.deepcopy(MACHINE)
            del lacking[field]
            refused(lacking, f"{field}: missing")
        for rate in (0, -1, "fast", None):
            odd = {**MACHINE, "bandwidth_gbs": {"copy": rate}}
            refused(odd, "bandwidth_gbs.copy: got ")
        refused({**MACHINE, "peak_tflops": {"fp32": 0}}, "peak_tflops.fp32: got ")
        refused({"x": 1}, "has neither rows nor cases", plot_roofline_data.load_series)


class Command(unittest.TestCase):
    def test_without_matplotlib_one_line_says_how_to_install_it(self):
        with Folder() as folder:
            folder.write("matplotlib.py", "raise ImportError('No module named matplotlib')\n")
            environment = {"PYTHONPATH": str(folder.path)}
            code, out, err = folder.run(
                SCRIPT, "--machine", "m.json", python=sys.executable, **environment
            )
            self.assertEqual((code, out, err.count("\n")), (2, "", 1))
            self.assertIn("-m pip install matplotlib", err)

    @needs_matplotlib
    def test_the_figure_lies_beside_the_operators_and_is_the_same_each_time(self):
        with Folder() as folder:
            folder.write("m.json", MACHINE)
            folder.write("r.json", results(3))
            folder.write("matplotlibrc", "axes.facecolor: red\nfont.size: 20\n")
            made = []
            for _ in range(2):
                code, out, err = folder.run(SCRIPT, "--machine", "m.json", "r.json")
                self.assertEqual((code, err), (0, ""))
                names = [f"figures/roofline.{kind}" for kind in ("png", "svg")]
                self.assertEqual(out.splitlines(), names)
                made.append([(folder.path / name).read_bytes() for name in names])
                (folder.path / "matplotlibrc").unlink(missing_ok=True)
            self.assertEqual(*made)
            self.assertEqual(made[0][0][:8], b"\x89PNG\r\n\x1a\n")

    @needs_matplotlib
    def test_mistakes_are_one_line_and_exit_code_2(self):
        with Folder() as folder:
            folder.write("m.json", MACHINE)
            folder.write("r.json", results(3))
            for arguments, expected in (
                (["--machine", "none.json"], "none.json: no such file"),
                (["--machine", "m.json", "none.json"], "none.json: no such file"),
                (["--machine", "r.json"], "kind: missing"),
                (["--machine", "m.json", "--unit", "fp8"], '--unit: got "fp8"; allowed on A GPU'),
                (["--machine", "m.json", "r.json", "--match", "fuzed"], "--match: got ['fuzed']"),
            ):
                code, out, err = folder.run(SCRIPT, *arguments)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
                self.assertIn(expected, err)
            self.assertEqual(sorted(os.listdir(folder.path)), ["m.json", "r.json"])

    @needs_matplotlib
    def test_no_text_overlaps_another_from_1_to_30_points(self):
        with Folder() as folder:
            machine = folder.write("m.json", MACHINE)
            other = {**MACHINE, "name": "Another", "bandwidth_gbs": {"copy": 3900}}
            two = f"{machine}:{folder.write('n.json', other)}"
            curve = folder.write("s.json", sweep())
            paper = folder.write("l.json", ledger(5))
            cases = [[machine], [machine, curve], [two, curve, paper]]
            for count in (1, 2, 7, 30):
                file = folder.write(f"r{count}.json", results(count))
                cases += [[machine, file], [two, file, curve]]
            for files in cases:
                code, out, err = folder.run(ROOT / "test" / "roofline_overlaps.py", *files)
                self.assertEqual((code, out, err), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
