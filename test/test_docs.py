"""The output in Markdown files: how blocks are found, checked and updated."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from stubs import ROOT, Sandbox

sys.path.insert(0, str(ROOT / "setup"))
import docs
import machine

# Stands in for a chapter's program: one subcommand for each way to end.
PROGRAM = r"""#!/bin/sh
echo "$@" >> calls
case "$1" in
ledger) echo "ledger [$2]"; echo; echo '  two  spaces'; echo 'progress' >&2 ;;
refuse) echo 'half an answer'; echo 'ch13: --m: got "-3"; allowed: above zero' >&2; exit 2 ;;
silent) ;;
fence) echo '```' ;;
open) printf 'no newline' ;;
crash) kill -SEGV $$ ;;
show) cat "$3" ;;
esac
"""


def block(command: str, *output: str, kind="run", fence="```") -> str:
    return "\n".join([f"<!-- {kind}: {command} -->", f"{fence}text", *output, fence, ""])


class Repository:
    """A folder with a chapter's program, in which the functions of docs.py can be called."""

    def __enter__(self):
        self._temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self._temporary.name).resolve()
        self.write("ch13", PROGRAM).chmod(0o755)
        self.write("results/a/ch13.json", "recorded\n")
        self.built = []
        self._root = mock.patch.object(machine, "ROOT", self.folder)
        self._root.start()
        return self

    def __exit__(self, *_):
        self._root.stop()
        self._temporary.cleanup()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def read(self, name="README.md") -> str:
        return (self.folder / name).read_bytes().decode()

    def docs(self, mode: str, *names):
        """Returns (exit code, stdout, stderr)."""
        programs = {"ch13": str(self.folder / "ch13"), "gone": "/nowhere", "sleep": "sleep"}
        files = [self.folder / name for name in names or ("README.md",)]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = docs.docs(
                files,
                mode == "write",
                docs.Runner(programs),
                {"ch13": "ch13_target"},
                lambda *targets: self.built.append(targets),
            )
        return code, out.getvalue(), err.getvalue()


class Output(unittest.TestCase):
    def written(self, text: str) -> str:
        """The file after --write, which --check then finds right."""
        with Repository() as repository:
            repository.write("README.md", text)
            code, _, err = repository.docs("write")
            self.assertEqual(code, 0, err)
            self.assertEqual(repository.docs("check")[:2], (0, ""))
            self.assertEqual(
                sorted(os.listdir(repository.folder)), ["README.md", "calls", "ch13", "results"]
            )
            return repository.read()

    def test_a_block_holds_what_the_command_prints_on_stdout(self):
        text = "before\n\n{}\nafter\n"
        expected = block("ch13 ledger", "ledger []", "", "  two  spaces")
        self.assertEqual(self.written(text.format(block("ch13 ledger"))), text.format(expected))
        self.assertEqual(
            self.written(text.format(block("ch13 ledger", "old"))), text.format(expected)
        )

    def test_quoted_words_reach_the_command_as_one_and_no_shell_sees_them(self):
        self.assertIn("ledger [a b]\n", self.written(block('ch13 ledger "a b"')))
        self.assertIn("ledger [$HOME;ls]\n", self.written(block("ch13 ledger $HOME;ls")))

    def test_a_refusal_shows_stderr_and_the_exit_code(self):
        refusal = 'ch13: --m: got "-3"; allowed: above zero'
        expected = block("ch13 refuse", "half an answer", refusal, "(exit code 2)")
        self.assertEqual(self.written(block("ch13 refuse")), expected)

    def test_a_command_that_prints_nothing_has_an_empty_block(self):
        self.assertEqual(self.written(block("ch13 silent", "old")), block("ch13 silent"))

    def test_output_without_a_last_newline_gets_one(self):
        self.assertEqual(self.written(block("ch13 open")), block("ch13 open", "no newline"))

    def test_a_recorded_block_is_rendered_from_its_file(self):
        command = "ch13 show --results results/a/ch13.json"
        expected = block(command, "recorded", kind="recorded")
        self.assertEqual(self.written(block(command, kind="recorded")), expected)

    def test_a_longer_fence_holds_a_shorter_one(self):
        expected = block("ch13 fence", "```", fence="````")
        self.assertEqual(self.written(block("ch13 fence", fence="````")), expected)

    def test_all_else_stays_byte_for_byte(self):
        text = (
            "# Title\u2028 \x0c\r\n\n```cpp\n<!-- run: ch99 -->\n```\n~~~sh\n```text\n~~~\n"
            "````markdown\n```text\n```\n````\n```\n\n```\n"
        ) + block("ch13 silent")
        self.assertEqual(self.written(text), text)
        self.assertEqual(self.written(text[:-1]), text[:-1])
        stale, fresh = block("ch13 open", "old"), block("ch13 open", "no newline")
        self.assertEqual(self.written(text + stale), text + fresh)
        self.assertEqual(self.written(stale + text), fresh + text)

    def test_blocks_that_grow_and_shrink_leave_each_other_alone(self):
        old = "a\n{}b\n{}c\n{}d\n".format(*[block("ch13 ledger")] * 2, block("ch13 open", "1", "2"))
        grown = block("ch13 ledger", "ledger []", "", "  two  spaces")
        new = "a\n{}b\n{}c\n{}d\n".format(grown, grown, block("ch13 open", "no newline"))
        self.assertEqual(self.written(old), new)

    def test_a_command_that_stands_in_several_blocks_runs_once(self):
        with Repository() as repository:
            repository.write("README.md", block("ch13 ledger") + block("ch13 ledger"))
            repository.docs("check")
            self.assertEqual(repository.read("calls"), "ledger\n")

    def test_only_chapters_that_are_used_are_built(self):
        with Repository() as repository:
            repository.write("README.md", "nothing\n")
            self.assertEqual(repository.docs("check")[0], 0)
            self.assertEqual(repository.built, [])
            repository.write("README.md", block("ch13 silent"))
            repository.docs("check")
            self.assertEqual(repository.built, [("ch13_target",)])


class Checking(unittest.TestCase):
    def test_a_difference_is_shown_as_a_diff_and_changes_nothing(self):
        with Repository() as repository:
            old = "text\n" + block("ch13 ledger", "ledger [old]", "", "  two  spaces")
            repository.write("README.md", old)
            code, out, err = repository.docs("check")
            self.assertEqual(code, 1)
            for line in (
                "--- a/README.md",
                "+++ b/README.md",
                "-ledger [old]",
                "+ledger []",
                " text",
            ):
                self.assertIn(line, out.splitlines())
            self.assertIn("--write", err)
            self.assertEqual(repository.read(), old)

    def test_one_differing_space_is_found(self):
        with Repository() as repository:
            repository.write("README.md", block("ch13 ledger", "ledger []", "", "  two spaces"))
            self.assertEqual(repository.docs("check")[0], 1)

    def test_writing_keeps_the_files_mode(self):
        with Repository() as repository:
            repository.write("README.md", block("ch13 ledger")).chmod(0o640)
            self.assertEqual(repository.docs("write")[0], 0)
            self.assertEqual((repository.folder / "README.md").stat().st_mode & 0o777, 0o640)

    def test_a_file_that_cannot_be_written_stays_as_it_was(self):
        with Repository() as repository:
            repository.write("README.md", block("ch13 ledger"))
            names = sorted([*os.listdir(repository.folder), "calls"])
            with mock.patch.object(docs.shutil, "copymode", side_effect=OSError("disk full")):
                with self.assertRaisesRegex(OSError, "disk full"):
                    repository.docs("write")
            self.assertEqual(repository.read(), block("ch13 ledger"))
            self.assertEqual(sorted(os.listdir(repository.folder)), names)


class Mistakes(unittest.TestCase):
    def refused(self, text: str, *lines: str):
        """Exit code 1, `lines` of stderr in their order, and the file as it was."""
        for mode in ("check", "write"):
            with Repository() as repository:
                repository.write("README.md", text)
                code, out, err = repository.docs(mode)
                self.assertEqual((code, out), (1, ""))
                self.assertEqual(repository.read(), text)
            found = err.splitlines()[:-1]
            self.assertEqual(len(found), len(lines), err)
            for line, expected in zip(found, lines):
                self.assertIn(f"book: README.md:{expected}", line)

    def test_a_text_fence_without_a_marker(self):
        self.refused("a\n```text\n```\n", "2: text fence without a marker; allowed: ")
        self.refused("a\n  ~~~ text\n  ~~~\n", "2: text fence without a marker")
        self.refused(block("ch13 silent") + "```text\n```\n", "4: text fence without a marker")

    def test_a_marker_without_a_text_fence(self):
        for below in ("", "\n", "\n\n```text\n```\n", "\n```cpp\n```\n"):
            with self.subTest(below):
                line = "1: a marker with no text fence directly below it"
                orphan = ["3: text fence without a marker"] if "text" in below else []
                self.refused("<!-- run: ch13 ledger -->" + below, line, *orphan)

    def test_a_marker_that_cannot_be_read(self):
        for marker in (
            "<!--run: ch13 -->",
            "<!-- run ch13 -->",
            "<!-- run: -->",
            " <!-- run: ch13 -->",
        ):
            with self.subTest(marker):
                self.refused(
                    f"{marker}\n", f'1: got "{marker.strip()}"; allowed: <!-- run: COMMAND -->'
                )

    def test_a_fence_that_is_never_closed(self):
        self.refused("a\n```sh\nls\n", "2: this ``` fence is never closed")
        self.refused(
            "<!-- run: ch13 silent -->\n````text\n```\n", "2: this ```` fence is never closed"
        )

    def test_a_command_that_is_unknown(self):
        for command in ("ch99 ledger", "ls", "./book docs --check", "/bin/ls"):
            with self.subTest(command):
                self.refused(
                    block(command),
                    f"1: run: {command}: unknown; allowed: a command of ch13, ",
                )
        self.refused(block('ch13 "a'), '1: run: ch13 "a: No closing quotation')

    def test_a_recorded_file_that_is_missing_or_not_named(self):
        self.refused(
            "\n" + block("ch13 show --results results/b/13.json", kind="recorded"),
            "2: recorded: ch13 show --results results/b/13.json: results/b/13.json: no such file",
        )
        self.refused(
            block("ch13 show", kind="recorded"),
            "1: recorded: ch13 show: names no recorded file; allowed: one in results/",
        )

    def test_a_command_that_crashes_or_cannot_be_started(self):
        self.refused(block("ch13 crash", "old"), "1: run: ch13 crash: ")
        self.refused(block("gone x"), "1: run: gone x: [Errno 2]")

    def test_a_command_that_takes_too_long(self):
        with mock.patch.object(docs, "TIME_LIMIT_S", 0.05):
            self.refused(block("sleep 60"), "1: run: sleep 60: ")

    def test_output_that_would_end_its_own_fence(self):
        self.refused(block("ch13 fence"), "1: run: ch13 fence: prints a line that ends a ``` fence")

    def test_all_mistakes_are_listed_and_the_good_blocks_still_written(self):
        with Repository() as repository:
            repository.write("README.md", "```text\n```\n" + block("ch99") + block("ch13 open"))
            code, _, err = repository.docs("write")
            self.assertEqual(code, 1)
            self.assertIn("README.md:1: ", err)
            self.assertIn("README.md:3: ", err)
            self.assertEqual(repository.read().count("no newline"), 1)

    def test_a_file_that_is_not_utf8(self):
        with Repository() as repository:
            (repository.folder / "README.md").write_bytes(b"\xff")
            with self.assertRaisesRegex(docs.Stop, "README.md: .*utf-8"):
                repository.docs("check")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Command(unittest.TestCase):
    def test_usage(self):
        with Sandbox() as sandbox:
            for arguments, expected in (
                ([], "--check --write is required"),
                (["--check", "--write"], "not allowed with"),
                (["--check", "none.md"], 'FILE: got "none.md"; allowed: a Markdown file'),
            ):
                code, out, err = sandbox.book("docs", *arguments)
                self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
                self.assertIn(expected, err)

    def test_every_tracked_file_is_updated_then_found_right_from_any_folder(self):
        with Sandbox() as sandbox:
            os.symlink(shutil.which("git"), sandbox.tools / "git")
            files = {
                "README.md": block("ch13 ledger --m 3"),
                "ch13_norm_rope/a page.md": block("./book ledger ch13"),
                "untracked.md": "```text\n```\n",
                "gone.md": "",
            }
            for name, text in files.items():
                (sandbox.folder / name).write_text(text, encoding="utf-8")
            git = ["git", "-C", sandbox.folder]
            subprocess.run([*git, "init", "-q"], check=True)
            subprocess.run([*git, "add", "README.md", "ch13_norm_rope", "gone.md"], check=True)
            (sandbox.folder / "gone.md").unlink()

            self.assertEqual(sandbox.book("docs", "--check")[0], 1)
            code, out, err = sandbox.book("docs", "--write")
            self.assertEqual(code, 0, err)
            self.assertEqual(
                out.splitlines(), ["updated README.md", "updated ch13_norm_rope/a page.md"]
            )
            self.assertEqual(sandbox.book("docs", "--check")[:2], (0, ""))
            for name, expected in (
                ("README.md", f"[ledger][--m][3]{sandbox.folder}"),
                ("ch13_norm_rope/a page.md", f"[ledger]{sandbox.folder}"),
            ):
                self.assertIn(expected, (sandbox.folder / name).read_text(encoding="utf-8"))

    def test_a_folder_without_git_is_named_as_the_reason(self):
        with Sandbox() as sandbox:
            os.symlink(shutil.which("git"), sandbox.tools / "git")
            code, _, err = sandbox.book(
                "docs", "--check", GIT_CEILING_DIRECTORIES=str(sandbox.folder.parent)
            )
            self.assertEqual(code, 1)
            self.assertIn("git does not list the Markdown files", err)


if __name__ == "__main__":
    unittest.main()
