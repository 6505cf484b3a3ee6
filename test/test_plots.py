"""The figures: which files are drawn, what is refused, and how they come out."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import plot_samples
from stubs import ROOT, Sandbox

sys.path.insert(0, str(ROOT / "setup"))
sys.path.insert(0, str(ROOT / "scripts"))
import figures
import plot_data

SCRIPT = ROOT / "scripts" / "plot_results.py"
PYTHON = figures.python_with_matplotlib()
needs_matplotlib = unittest.skipUnless(PYTHON, "Matplotlib is not installed")


class Folder:
    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.path = Path(self._temporary.name).resolve()
        return self

    def __exit__(self, *_):
        self._temporary.cleanup()

    def write(self, name: str, document) -> Path:
        path = self.path / name
        text = document if isinstance(document, str) else json.dumps(document)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments, python=PYTHON, **environment):
        """Returns (exit code, stdout, stderr)."""
        done = subprocess.run(
            [python, "-B", *arguments],
            cwd=self.path,
            env={**os.environ, **environment},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


class Reading(unittest.TestCase):
    def load(self, document):
        with Folder() as folder:
            return plot_data.load(folder.write("r.json", document))

    def refusal(self, document) -> str:
        with self.assertRaises(plot_data.Refused) as caught:
            self.load(document)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        return message[message.index("r.json") :]

    def test_rows_that_differ_in_the_plan_alone_are_one_group(self):
        table = self.load(plot_samples.results(5))
        self.assertEqual([len(group.rows) for group in table.groups], [2, 2, 1])
        self.assertEqual(table.groups[1].detail, "float16, 4097 x 4096")
        unfused, fused = table.groups[1].rows
        self.assertEqual((unfused.plan, fused.plan), ("unfused", "fused"))
        self.assertEqual((fused.ledger_bytes, fused.counted_bytes), (101000000, 102000000))
        self.assertEqual(fused.replay_bytes, fused.ledger_bytes)
        self.assertEqual([share.roof for share in fused.shares], ["copy", "converting copy"])

    def test_device_and_temperature_are_named_where_they_tell_rows_apart(self):
        document = plot_samples.results(2, plans=("fused",))
        document["rows"][1] = {**document["rows"][0], "temperature": "hot"}
        details = [group.detail for group in self.load(document).groups]
        self.assertEqual(details, ["float32, 4096 x 4096, cold", "float32, 4096 x 4096, hot"])

    def test_peers_join_the_cells_of_the_same_machine(self):
        document = plot_samples.results(4)
        peers = copy.deepcopy(document)
        peers["rows"] = [{**row, "plan": "peer: other"} for row in peers["rows"][1::2]]
        peers["rows"][1]["shape"] = [1, 2]  # a cell that the results do not have
        with Folder() as folder:
            path = folder.write("r.json", document)
            table = plot_data.load(path)
            self.assertEqual(plot_data.with_peers(table, path), table)
            folder.write("r_peers.json", peers)
            groups = plot_data.with_peers(table, path).groups
            self.assertEqual(
                [[row.plan for row in group.rows] for group in groups],
                [["unfused", "fused", "peer: other"], ["unfused", "fused"]],
            )
            bench = folder.write("r_cuda.json", document)
            self.assertEqual(plot_data.with_peers(plot_data.load(bench), bench).groups, groups)
            peers["machine"]["name"] = "another"
            folder.write("r_peers.json", peers)
            self.assertEqual(plot_data.with_peers(table, path), table)

    def test_what_was_not_measured_is_none(self):
        document = plot_samples.results(1)
        document["rows"][0].update(share_of_roof=None, share_lo=float("nan"))
        (share,) = self.load(document).groups[0].rows[0].shares
        self.assertEqual((share.median, share.low), (None, None))
        self.assertIsNotNone(share.high)

    def test_one_case_and_one_curve_are_read_like_a_list_of_one(self):
        for whole, name in ((plot_samples.ledger(), "cases"), (plot_samples.curves(1), "curves")):
            self.assertEqual(self.load(whole), self.load(whole[name][0]))

    def test_a_ledger_has_its_arguments_for_a_label(self):
        (group,) = self.load(plot_samples.ledger()).groups
        self.assertEqual(
            group.detail, "bfloat16, m 4096, n 4096, rope_dim 128, out_dtype float8_e4m3fn"
        )
        self.assertEqual([row.ledger_bytes for row in group.rows], [185617408, 51396608])

    def test_designs_are_payload_and_lookup_ours_among_them(self):
        ledger = self.load(plot_samples.designs())
        self.assertEqual(ledger.detail, "tokens 4096, q_heads 32, kv_heads 8, head_dim 128")
        self.assertEqual(ledger.ideal, 67764736)
        self.assertEqual(
            [(one.label, one.payload, one.lookup) for one in ledger.designs],
            [
                ("A, 1 row a block", 63569920, 251658240),
                ("C, 40 rows a block", 63569920, 6291456),
                ("D, 16 rows a block", 63569920, 17825792),
            ],
        )

    def test_predictions_are_times_above_zero(self):
        table = self.load(plot_samples.predictions())
        self.assertEqual(table.machine, "NVIDIA H200")
        self.assertEqual(table.points[0], plot_data.Prediction("A", 4096, 45.0, 48.0))
        for value in (0, -1, None, "5"):
            document = plot_samples.predictions()
            document["predictions"][1]["measured_us"] = value
            self.assertIn("predictions[1].measured_us: got", self.refusal(document))

    def test_a_field_that_is_missing_is_named(self):
        for whole, path in (
            (plot_samples.results(2), ("rows", 1)),
            (plot_samples.results(2), ("machine",)),
            (plot_samples.curves(2), ("curves", 1)),
            (plot_samples.curves(1), ("curves", 0, "points", 3)),
            (plot_samples.ledger(), ("cases", 0)),
            (plot_samples.ledger(), ("cases", 0, "fused")),
            (plot_samples.designs(), ("designs", 1)),
            (plot_samples.predictions(), ("predictions", 1)),
        ):
            names = list(at(whole, path))
            for name in names:
                optional = name.endswith("_bytes") and path == ("rows", 1)
                if optional or name == "share_of_converting_copy":
                    continue
                with self.subTest(path, name=name):
                    document = copy.deepcopy(whole)
                    del at(document, path)[name]
                    self.assertRegex(self.refusal(document), rf"[.]{name}: missing$")

    def test_a_value_that_is_odd_is_named_with_what_is_allowed(self):
        for name, value, expected in (
            ("bytes", -1, "got -1; allowed: a whole number, zero or more"),
            ("bytes", 1.5, "got 1.5; allowed: a whole number"),
            ("bytes", True, "got true; allowed: a whole number"),
            ("bytes", None, "got null; allowed: a whole number"),
            ("dram_bytes", "5", 'got "5"; allowed: a whole number'),
            ("share_lo", "5", 'got "5"; allowed: a number, zero or more, or null'),
            ("share_of_roof", -0.5, "got -0.5; allowed: a number"),
            ("op", "", 'got ""; allowed: a text that is not empty'),
            ("plan", 5, "got 5; allowed: a text"),
            ("shape", [4, "4"], 'got [4, "4"]; allowed: a list of sizes'),
            ("shape", 4, "got 4; allowed: a list of sizes"),
            ("dtype", "x\n" * 99, None),
        ):
            with self.subTest(name, value=value):
                document = plot_samples.results(2)
                document["rows"][1][name] = value
                if expected:
                    self.assertIn(f"rows[1].{name}: {expected}", self.refusal(document))
                else:
                    self.load(document)

    def test_a_file_that_is_something_else_is_refused(self):
        results = plot_samples.results(1)
        for document, expected in (
            ("", "is not JSON"),
            ('{"rows": [', "is not JSON"),
            ("[" * 100000, "is not JSON"),
            ("5", "got 5; allowed: an object"),
            ([1], "got [1]; allowed: an object"),
            ({}, "has none of rows, cases, designs, curves and predictions; allowed: results, or"),
            ({**results, "rows": []}, "rows: got []; allowed: a list that is not empty"),
            ({**results, "rows": [5]}, "rows[0]: got 5; allowed: an object"),
            ({**results, "schema": 2}, "schema: got 2; allowed: 1"),
            ({**results, "machine": None}, "machine: got null; allowed: an object"),
        ):
            with self.subTest(expected):
                self.assertIn(expected, self.refusal(document))
        with self.assertRaisesRegex(plot_data.Refused, "^/nowhere/r.json: no such file$"):
            plot_data.load(Path("/nowhere/r.json"))


def at(document, path):
    for step in path:
        document = document[step]
    return document


class Command(unittest.TestCase):
    def test_without_matplotlib_one_line_says_how_to_install_it(self):
        with Folder() as folder:
            folder.write("matplotlib.py", "raise ImportError('No module named matplotlib')\n")
            environment = {"PYTHONPATH": str(folder.path)}
            code, out, err = folder.run(SCRIPT, "x.json", python=sys.executable, **environment)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1))
            self.assertIn("-m pip install matplotlib", err)

    @needs_matplotlib
    def test_each_kind_of_file_has_its_figures_beside_it(self):
        with Folder() as folder:
            folder.write("ch13.json", plot_samples.results(4))
            folder.write("ch13_cache.json", plot_samples.curves(2))
            folder.write("paper.json", plot_samples.ledger())
            folder.write("ch28_designs.json", plot_samples.designs())
            folder.write("ch28_claims.json", plot_samples.predictions())
            files = ("ch13", "ch13_cache", "paper", "ch28_designs", "ch28_claims")
            code, out, err = folder.run(SCRIPT, *(f"{name}.json" for name in files))
            self.assertEqual((code, err), (0, ""))
            names = ("ch13_bytes", "ch13_roof", "ch13_cache", "paper_bytes")
            names += ("ch28_designs", "ch28_predicted")
            expected = [f"figures/{name}.{kind}" for name in names for kind in ("png", "svg")]
            self.assertEqual(out.splitlines(), expected)
            self.assertEqual(len(os.listdir(folder.path / "figures")), len(expected))
            for name in expected:
                data = (folder.path / name).read_bytes()
                if name.endswith("png"):
                    self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                else:
                    self.assertTrue(ElementTree.fromstring(data).tag.endswith("svg"))

    @needs_matplotlib
    def test_the_same_file_gives_the_same_bytes(self):
        with Folder() as folder:
            folder.write("r.json", plot_samples.results(2))
            folder.write("c.json", plot_samples.curves(1))
            # Neither the day nor a reader's own settings leave a trace.
            folder.write("matplotlibrc", "axes.facecolor: red\nfont.size: 20\n")
            for out, day in (("a", "0"), ("b", "1000000000")):
                code, _, err = folder.run(
                    SCRIPT, "r.json", "c.json", "--out", out, SOURCE_DATE_EPOCH=day
                )
                self.assertEqual((code, err), (0, ""))
                (folder.path / "matplotlibrc").unlink(missing_ok=True)
            names = sorted(os.listdir(folder.path / "a"))
            self.assertEqual(len(names), 6)
            for name in names:
                first, second = ((folder.path / out / name).read_bytes() for out in "ab")
                self.assertEqual(first, second, name)

    @needs_matplotlib
    def test_mistakes_are_one_line_and_exit_code_2(self):
        with Folder() as folder:
            folder.write("odd.json", {"rows": 5})
            folder.write("r.json", plot_samples.results(1))
            for arguments, expected in (
                (["none.json"], "none.json: no such file"),
                (["odd.json"], "odd.json: schema: missing"),
                (["r.json", "--out", "odd.json"], "odd.json"),
            ):
                code, out, err = folder.run(SCRIPT, *arguments)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
                self.assertIn(expected, err)
            self.assertEqual(sorted(os.listdir(folder.path)), ["odd.json", "r.json"])

    @needs_matplotlib
    def test_no_text_overlaps_another_from_1_to_30_rows(self):
        with Folder() as folder:
            designs = [f"design {i}" for i in range(10)]
            files = [
                folder.write("ledger.json", plot_samples.ledger(3)),
                folder.write("ch28_designs.json", plot_samples.designs()),
                folder.write("ch28_claims.json", plot_samples.predictions()),
                folder.write("designs.json", plot_samples.results(30, plans=designs)),
                folder.write("lone.json", plot_samples.results(30, plans=("fused",))),
            ]
            for count in (1, 6, 30):
                files.append(folder.write(f"r{count}.json", plot_samples.results(count)))
                files.append(folder.write(f"c{count}.json", plot_samples.curves(count)))
            code, out, err = folder.run(ROOT / "test" / "plot_overlaps.py", *files)
            self.assertEqual((code, out, err), (0, "", ""))

    @needs_matplotlib
    def test_rows_without_a_measurement_are_drawn_as_that(self):
        with Folder() as folder:
            document = plot_samples.results(1)
            document["rows"][0].update(bytes=0, share_of_roof=None, share_lo=None, share_hi=None)
            code, _, err = folder.run(SCRIPT, folder.write("r.json", document))
            self.assertEqual((code, err), (0, ""))


class Run(unittest.TestCase):
    """./book run, with stand-ins for the chapter's program and for the Python of .venv."""

    def run_book(self, sandbox, **environment):
        with Folder() as hidden:
            hidden.write("matplotlib.py", "raise ImportError('hidden')\n")
            results = sandbox.folder / "build" / "results" / "ch13.json"
            results.parent.mkdir(parents=True, exist_ok=True)
            results.touch()
            return sandbox.book("run", "ch13", PYTHONPATH=str(hidden.path), **environment)

    def add_python(self, sandbox):
        (sandbox.folder / ".venv" / "bin").mkdir(parents=True)
        text = (
            '#!/bin/sh\n[ "$1" = -c ] && echo 3.6.3 && exit\nprintf "<%s>" "$@"\nexit ${DRAWN:-0}\n'
        )
        sandbox.add_tool("../op book/.venv/bin/python", text)

    def test_figures_are_made_by_the_python_that_has_matplotlib(self):
        with Sandbox() as sandbox:
            self.add_python(sandbox)
            code, out, err = self.run_book(sandbox)
            self.assertEqual(code, 0, err)
            self.assertIn("== ch13 figures\n", out)
            results = sandbox.folder / "build" / "results"
            script = sandbox.folder / "scripts" / "plot_results.py"
            files = f"<{results / 'ch13.json'}><{results / 'ch13_cache.json'}>"
            self.assertTrue(out.endswith(f"<{script}>{files}"), out)
            cache = (results / "ch13_cache.json").read_text(encoding="utf-8")
            self.assertIn("[cache][--json]", cache)

    def test_where_the_machine_was_measured_its_roofline_is_drawn_too(self):
        with Sandbox() as sandbox:
            self.add_python(sandbox)
            results = sandbox.folder / "build" / "results"
            results.mkdir(parents=True)
            (results / "ch13_machine.json").touch()
            code, out, err = self.run_book(sandbox)
            self.assertEqual(code, 0, err)
            script = sandbox.folder / "scripts" / "plot_roofline.py"
            roofs = f"<--machine><{results / 'ch13_machine.json'}><--name><ch13_roofline>"
            self.assertTrue(out.endswith(f"<{script}>{roofs}<{results / 'ch13.json'}>"), out)

    def test_figures_that_fail_fail_the_run(self):
        with Sandbox() as sandbox:
            self.add_python(sandbox)
            self.assertEqual(self.run_book(sandbox, DRAWN="2")[0], 2)

    def test_without_curves_the_results_are_drawn_all_the_same(self):
        with Sandbox() as sandbox:
            self.add_python(sandbox)
            code, out, _ = self.run_book(sandbox, EXIT_CODE="1")
            self.assertEqual((code, out[-11:]), (1, "/ch13.json>"))
            self.assertEqual(os.listdir(sandbox.folder / "build" / "results"), ["ch13.json"])

    def test_without_matplotlib_a_line_says_what_brings_it_and_nothing_fails(self):
        with Sandbox() as sandbox:
            code, out, err = self.run_book(sandbox)
            self.assertEqual(code, 0, err)
            self.assertNotIn("figures", out)
            (line,) = [line for line in err.splitlines() if "figures" in line]
            self.assertRegex(line, "Matplotlib is not installed; to install it: .*matplotlib")


if __name__ == "__main__":
    unittest.main()
