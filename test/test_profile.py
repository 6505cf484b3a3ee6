"""Profiles: what profile_kernels.py makes of ncu's table, and what it refuses."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from stubs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import profile_kernels

SCRIPT = ROOT / "scripts" / "profile_kernels.py"


def ncu_output(kernel: str, value: str) -> str:
    """What ncu prints with --csv --page raw: a line of names, one of units, one a kernel."""
    names = ["ID", "Kernel Name", *profile_kernels.METRICS.values()]
    rows = [names, [""] * len(names), ["0", kernel, *[value] * len(profile_kernels.METRICS)]]
    table = "\n".join('"' + '","'.join(row) + '"' for row in rows)
    return f"==PROF== Connected to process 1\nran the fused plan once\n{table}\n"


def refused(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


class Tables(unittest.TestCase):
    def test_a_kernel_is_a_line_under_its_own_name(self):
        kernel = "void ch13::<unnamed>::rms_norm_kernel<bfloat16, 128>(Rows<const T1>, int)"
        head, line = profile_kernels.table_of(ncu_output(kernel, "1,500")).splitlines()
        self.assertEqual(line.split()[0], "rms_norm_kernel")
        self.assertEqual(line.split()[1], "1.50")  # nanoseconds there, microseconds here
        self.assertEqual(line.split()[2], "1500")
        self.assertEqual(len(line), len(head))

    def test_what_was_not_counted_is_a_dash(self):
        line = profile_kernels.table_of(ncu_output("f(int)", "n/a")).splitlines()[1]
        self.assertEqual(set(line.split()[1:]), {"-"})

    def test_output_without_a_table_stops_with_ncus_last_line(self):
        with self.assertRaises(SystemExit) as stopped:
            profile_kernels.table_of("==ERROR== ERR_NVGPUCTRPERM\n")
        self.assertEqual(stopped.exception.code, 1)


class Refusals(unittest.TestCase):
    def test_a_chapter_that_is_not_built_is_named(self):
        done = refused("ch99")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('got "ch99"', done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_save_needs_a_file(self):
        done = refused("ch13", "--save")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--save", done.stderr)

    def test_without_ncu_it_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            program = Path(profile_kernels.ROOT) / "build" / Path(empty).name / "chxx_test" / "chxx"
            program.parent.mkdir(parents=True)
            program.touch()
            try:
                done = refused("chxx", PATH=empty, CUDA_PATH=empty, PRESET=Path(empty).name)
            finally:
                program.unlink()
                program.parent.rmdir()
                program.parent.parent.rmdir()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("ncu", done.stderr)


if __name__ == "__main__":
    unittest.main()
