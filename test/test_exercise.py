"""Exercises as ./book lists, explains, builds and resets them. What the grader says of a program is
tested with the grader; what does not compile, here."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

from stubs import CMAKE, ROOT, Sandbox

sys.path.insert(0, str(ROOT / "setup"))
import exercise
import machine

FILE = Path("ch13_norm_rope/exercises/01_fuse_rms_norm.cpp")

# Builds a grader that takes a file with SOLVED in it for right, and crashes at CRASH; one with BROKEN
# in it does not compile.
BUILD = r"""
  file="${2%/build/default}/ch13_norm_rope/exercises/01_fuse_rms_norm.cpp"
  while read -r line; do case "$line" in *BROKEN*)
    echo "FAILED: ch13/exercises/grading/01_fuse_rms_norm_main.cpp.o"
    echo "c++ -c everything.cpp"
    echo "$file:3:7: error: 'BROKEN' was not declared in this scope"
    echo "    3 | x = BROKEN;"
    exit 1 ;;
  esac; done < "$file"
  cat > "$2/ch13_norm_rope/ch13_exercise_01" <<'END'
#!/bin/sh
while read -r line; do case "$line" in
  *SOLVED*) echo Done.; exit 0 ;;
  *CRASH*) kill -SEGV $$ ;;
esac; done < ch13_norm_rope/exercises/01_fuse_rms_norm.cpp
echo 'Not started.'
exit 1
END
  chmod +x "$2/ch13_norm_rope/ch13_exercise_01"
  exit 0 ;;
"""


class ExerciseSandbox(Sandbox):
    def __enter__(self):
        super().__enter__()
        shutil.copytree(ROOT / FILE.parent, self.folder / FILE.parent)
        self.file = self.folder / FILE
        shutil.copy(self.file.parent / "skeletons" / FILE.name, self.file)
        self.shipped = self.file.read_text(encoding="utf-8")
        start = '  echo "build $*" >> "$here/calls"\n'
        target = 'mkdir -p "$2/ch13_norm_rope"\n  case "$*" in *ch13_exercise_01)\n'
        self.add_tool("cmake", CMAKE.replace(start, f"{start}  {target}{BUILD}  esac\n"))
        self.add_tool("cat", f"#!/bin/sh\nexec {shutil.which('cat')}\n")
        return self

    def write(self, text: str) -> None:
        self.file.write_text(f"{text}\n", encoding="utf-8")

    def exercise(self, *arguments):
        return self.book("exercise", *arguments)


class Usage(unittest.TestCase):
    def refused(self, *arguments):
        with ExerciseSandbox() as sandbox:
            code, out, err = sandbox.exercise(*arguments)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertEqual(sandbox.calls(), [])
        return err

    def test_an_exercise_that_does_not_exist_is_refused_with_those_that_do(self):
        self.assertIn('N: got "2"; allowed: 1', self.refused("ch13", "2"))
        self.assertIn('N: got "one"; allowed: 1', self.refused("ch13", "one"))
        self.assertIn('CH: got "ch99"; allowed: ch13', self.refused("ch99", "1"))

    def test_options_need_an_exercise_and_exclude_each_other(self):
        self.assertIn("N: got none", self.refused("ch13", "--hint"))
        self.assertIn("N: got none", self.refused("--watch"))
        self.assertIn("not allowed with", self.refused("ch13", "1", "--hint", "--reset"))
        self.assertIn("--solve", self.refused("ch13", "1", "--solve"))


class Explaining(unittest.TestCase):
    def test_the_list_names_each_exercise_its_file_and_how_far_it_is(self):
        with ExerciseSandbox() as sandbox:
            for arguments in ([], ["ch13"], ["ch13_norm_rope"]):
                code, out, err = sandbox.exercise(*arguments)
                self.assertEqual((code, err), (0, ""))
                self.assertIn("ch13 1  Fuse RMSNorm", out)
                self.assertIn("not started", out)
                self.assertIn(str(FILE), out)
            sandbox.write("begun")
            self.assertIn("begun", sandbox.exercise()[1])
            self.assertEqual(sandbox.calls(), [])

    def test_hints_come_one_by_one_and_the_last_one_stays(self):
        with ExerciseSandbox() as sandbox:
            for number in (1, 2, 3, 3):
                code, out, err = sandbox.exercise("ch13", "1", "--hint")
                self.assertEqual((code, err), (0, ""))
                self.assertTrue(out.startswith(f"Hint {number} of 3\n"), out)
            self.assertIn("pragma omp simd", out)

    def test_a_memory_of_hints_that_is_damaged_begins_anew(self):
        with ExerciseSandbox() as sandbox:
            for text in ("[]", "{", '{"ch13_exercise_01": 3}'):
                (sandbox.folder / "build").mkdir(exist_ok=True)
                (sandbox.folder / "build" / "exercises.json").write_text(text, encoding="utf-8")
                self.assertIn("Hint 1 of 3", sandbox.exercise("ch13", "1", "--hint")[1])

    def test_the_solution_is_shown_with_its_path(self):
        with ExerciseSandbox() as sandbox:
            code, out, _ = sandbox.exercise("ch13", "1", "--solution")
            text = (ROOT / FILE.parent / "solutions" / FILE.name).read_text(encoding="utf-8")
            self.assertEqual((code, out), (0, f"{FILE.parent}/solutions/{FILE.name}\n\n{text}"))


class Grading(unittest.TestCase):
    def test_a_skeleton_is_explained_graded_and_not_done(self):
        with ExerciseSandbox() as sandbox:
            code, out, _ = sandbox.exercise("ch13", "1")
            self.assertEqual(code, 1)
            self.assertIn("mean square", out)
            self.assertIn(str(FILE), out)
            self.assertTrue(out.endswith("Not started.\n"), out)
            self.assertIn("--target ch13_exercise_01", sandbox.calls()[-1])

    def test_what_was_found_to_be_done_is_remembered_until_it_changes(self):
        with ExerciseSandbox() as sandbox:
            sandbox.write("SOLVED")
            code, out, _ = sandbox.exercise("ch13", "1")
            self.assertEqual((code, out[-6:]), (0, "Done.\n"))
            self.assertIn("  done  ", sandbox.exercise()[1])
            sandbox.write("no longer")
            self.assertIn("  begun  ", sandbox.exercise()[1])

    def test_what_does_not_compile_is_told_with_its_first_error_alone(self):
        with ExerciseSandbox() as sandbox:
            sandbox.write("BROKEN")
            code, out, err = sandbox.exercise("ch13", "1")
            self.assertEqual(code, 1)
            told = f"Does not compile:\n\n{FILE}:3:7: error: 'BROKEN' was not declared in this scope\n"
            self.assertIn(f"{told}    3 | x = BROKEN;\n", out)
            self.assertNotIn("everything.cpp", out + err)

    def test_a_build_that_fails_elsewhere_is_not_laid_at_the_readers_door(self):
        with ExerciseSandbox() as sandbox:
            (sandbox.tools / "broken").touch()
            sandbox.add_tool("cmake", CMAKE)
            code, out, err = sandbox.exercise("ch13", "1")
            self.assertEqual(code, 1)
            self.assertNotIn("Does not compile", out)
            self.assertIn("the build failed", err)

    def test_a_grader_that_crashes_is_no_pass(self):
        with ExerciseSandbox() as sandbox:
            sandbox.write("CRASH")
            code, _, err = sandbox.exercise("ch13", "1")
            self.assertEqual(code, 1)
            self.assertIn("exit code -11", err)

    def test_watch_grades_at_each_save_until_it_is_interrupted(self):
        with ExerciseSandbox() as sandbox:
            process = sandbox.start("exercise", "ch13", "1", "--watch")
            try:
                self.assertIn("Not started.\n", read_until(process, "waiting for"))
                sandbox.write("SOLVED")
                self.assertIn("Done.\n", read_until(process, "waiting for"))
                replacement = sandbox.file.with_suffix(".new")
                replacement.write_text("begun anew", encoding="utf-8")
                sandbox.file.unlink()
                time.sleep(3 * exercise.POLL_S)
                replacement.rename(sandbox.file)  # as some editors save
                self.assertIn("Not started.\n", read_until(process, "waiting for"))
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=20)
                self.assertEqual(process.returncode, 1)
            finally:
                process.kill()
                process.communicate()


def read_until(process, text: str) -> str:
    """What the process prints up to the line with `text`; fails where it ends before."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


class Resetting(unittest.TestCase):
    def test_reset_brings_the_skeleton_back_and_keeps_what_was_there(self):
        with ExerciseSandbox() as sandbox:
            for text in ("mine", "mine too", "mine"):
                sandbox.write(text)
                code, out, err = sandbox.exercise("ch13", "1", "--reset")
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(sandbox.file.read_text(encoding="utf-8"), sandbox.shipped)
                kept = sandbox.folder / out.split()[-1]
                self.assertEqual(kept.read_text(encoding="utf-8"), f"{text}\n")
            self.assertEqual(len(list(sandbox.file.parent.glob("*.bak"))), 2)

    def test_resetting_a_skeleton_changes_nothing(self):
        with ExerciseSandbox() as sandbox:
            code, out, _ = sandbox.exercise("ch13", "1", "--reset")
            self.assertEqual((code, list(sandbox.file.parent.glob("*.bak"))), (0, []))
            self.assertIn("already", out)

    def test_a_file_that_was_deleted_is_the_skeleton_again(self):
        with ExerciseSandbox() as sandbox:
            sandbox.file.unlink()
            self.assertIn("not started", sandbox.exercise("ch13")[1])
            self.assertEqual(sandbox.file.read_text(encoding="utf-8"), sandbox.shipped)


class Compiling(unittest.TestCase):
    """The messages of the compiler that is here."""

    def errors(self, source: str) -> str:
        compiler = machine.find_compiler()
        if not compiler:
            self.skipTest("no C++20 compiler")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder).resolve() / FILE.name
            file.write_text(source, encoding="utf-8")
            main = ROOT / FILE.parent / "grading" / f"{FILE.stem}_main.cpp"
            options = ["-std=c++20", "-fopenmp", "-fsyntax-only", f"-I{ROOT}", f'-DOPBOOK_SUBMISSION="{file}"']
            run = subprocess.run(
                [compiler.path, *options, str(main)], capture_output=True, encoding="utf-8", check=False
            )
            self.assertNotEqual(run.returncode, 0)
            log = f"FAILED: {main.name}.o\n{compiler.path} -c {main}\n{run.stderr}"
            skeleton = ROOT / FILE.parent / "skeletons" / FILE.name
            text = exercise.compile_errors(log, SimpleNamespace(file=file, skeleton=skeleton))
            return text.replace(f"{folder}/", "")

    def wrong(self, name: str) -> str:
        return (ROOT / FILE.parent / "wrong" / f"01_{name}.cpp").read_text(encoding="utf-8")

    def test_an_undeclared_variable_is_shown_in_its_line_and_nothing_else(self):
        text = self.errors(self.wrong("compile_error"))
        self.assertRegex(text, r"\A[^\n]*01_fuse_rms_norm.cpp:10:44: error: [^\n]*\bn\b")
        self.assertIn("std::sqrt(sum / n + eps)", text)
        self.assertLessEqual(text.count("\n"), 3)

    def test_a_member_that_views_lack_is_shown_where_it_is_used(self):
        text = self.errors(self.wrong("no_such_member"))
        self.assertRegex(text, r"\A[^\n]*01_fuse_rms_norm.cpp:9:36: error: [^\n]*columns")
        self.assertIn("j < x.columns()", text)
        self.assertIn("(2 more lines with errors", text)

    def test_a_function_that_is_missing_is_explained_by_the_skeleton(self):
        text = self.errors('#include "common/exercise.hpp"\n')
        self.assertIn("rms_norm", text.splitlines()[0])
        self.assertIn("The skeleton has what is called, and how: ch13_norm_rope/exercises/skeletons", text)


class Shipped(unittest.TestCase):
    def test_every_exercise_has_a_task_three_hints_a_skeleton_and_a_solution(self):
        found = [
            one
            for folder in ROOT.glob("ch[0-9][0-9]_*")
            for one in exercise.exercises(folder.name[:4], folder.name)
        ]
        self.assertTrue(found)
        for one in found:
            with self.subTest(one.target):
                self.assertTrue(one.title and one.sections["Task"])
                self.assertEqual(len(one.hints()), 3)
                self.assertTrue(one.skeleton.exists() and one.solution.exists())

    def test_the_file_that_readers_write_is_shipped_as_the_skeleton(self):
        shipped = machine.output_of(["git", "-C", str(ROOT), "show", f"HEAD:{FILE}"])
        if not shipped:
            self.skipTest("this is no git repository")
        skeleton = ROOT / FILE.parent / "skeletons" / FILE.name
        self.assertEqual(shipped, skeleton.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
