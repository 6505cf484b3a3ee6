"""The reader's command: what it accepts, what it forwards, and how it sets up."""

import importlib.machinery
import importlib.util
import io
import json
import signal
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from stubs import ROOT, Sandbox

sys.path.insert(0, str(ROOT / "setup"))
import doctor
import figures
import install
import machine

FORWARDED = ("ledger", "verify", "bench", "show", "cache", "errata", "roofs", "claims")


def load_book():
    loader = importlib.machinery.SourceFileLoader("book", str(ROOT / "book"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("book", loader))
    loader.exec_module(module)
    return module


class Usage(unittest.TestCase):
    def refused(self, *arguments):
        """Exit code 2, one line on stderr, nothing on stdout, nothing built; returns the line."""
        with Sandbox() as sandbox:
            code, out, err = sandbox.book(*arguments)
            self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
            self.assertEqual(sandbox.calls(), [])
        return err

    def test_an_unknown_chapter_is_refused_with_the_names_that_exist(self):
        for command in (*FORWARDED, "run", "test", "build"):
            with self.subTest(command):
                line = self.refused(command, "ch99")
                self.assertIn('CH: got "ch99"; allowed: ch13 (ch13_norm_rope)', line)

    def test_a_missing_chapter_is_refused_with_the_names_that_exist(self):
        self.assertIn("allowed: ch13", self.refused("ledger"))
        self.assertIn('got "--json"; allowed: ch13', self.refused("ledger", "--json"))

    def test_an_unknown_command_is_refused_with_the_commands_that_exist(self):
        self.assertIn(
            "allowed: doctor, run, test, build, " + ", ".join(FORWARDED) + ", compare",
            self.refused("leger"),
        )

    def test_an_unknown_option_is_refused(self):
        self.assertIn("--fast", self.refused("run", "--fast"))
        self.assertIn("--fast", self.refused("test", "ch13", "--fast"))
        self.assertIn("choose from", self.refused("run", "--device", "tpu"))
        self.assertIn("allowed: no arguments", self.refused("doctor", "ch13"))

    def test_help_goes_to_stdout(self):
        with Sandbox() as sandbox:
            for arguments in (["--help"], ["ledger", "--help"]):
                code, out, err = sandbox.book(*arguments)
                self.assertEqual((code, err), (0, ""))
                self.assertIn("usage: ./book", out)

    @unittest.skipIf(machine.gpu_is_visible(), "this machine has a GPU")
    def test_a_device_that_is_not_there_has_exit_code_3_before_anything_is_built(self):
        with Sandbox() as sandbox:
            code, out, err = sandbox.book("run", "ch13", "--device", "cuda")
            self.assertEqual((code, out, err.count("\n")), (3, "", 1))
            self.assertEqual(sandbox.calls(), [])


class Forwarding(unittest.TestCase):
    def test_arguments_and_folder_reach_the_program_untouched(self):
        with Sandbox() as sandbox:
            code, out, _ = sandbox.book("ledger", "ch13", "--json", "a b", "", "--preset", "*")
            expected = f"[ledger][--json][a b][][--preset][*]{sandbox.elsewhere}\n"
            self.assertEqual((code, out), (0, expected))

    def test_every_subcommand_that_is_forwarded_arrives_by_its_name(self):
        with Sandbox() as sandbox:
            for command in FORWARDED:
                with self.subTest(command):
                    code, out, _ = sandbox.book(command, "ch13", "--json")
                    self.assertEqual((code, out), (0, f"[{command}][--json]{sandbox.elsewhere}\n"))
                    self.assertIn(f"  {command} CH ", sandbox.book("--help")[1])

    def test_compare_needs_no_chapter_and_takes_paths_from_the_readers_folder(self):
        with Sandbox() as sandbox:
            code, out, _ = sandbox.book("compare", "a.npy", "../b.npy", "--json", EXIT_CODE="1")
            expected = f"[compare][a.npy][../b.npy][--json]{sandbox.elsewhere}\n"
            self.assertEqual((code, out), (1, expected))
            self.assertIn("--target opbook_tool", sandbox.calls()[-1])

    def test_a_chapter_may_be_named_by_its_folder(self):
        with Sandbox() as sandbox:
            self.assertIn("[verify][--m]", sandbox.book("verify", "ch13_norm_rope", "--m")[1])

    def test_the_programs_exit_code_is_passed_on(self):
        with Sandbox() as sandbox:
            for code in ("1", "2", "3"):
                self.assertEqual(sandbox.book("bench", "ch13", EXIT_CODE=code)[0], int(code))

    def test_a_program_that_is_built_already_has_stderr_to_itself(self):
        with Sandbox() as sandbox:
            self.assertIn("compiling main.cpp", sandbox.book("ledger", "ch13")[2])
            self.assertEqual(sandbox.book("ledger", "ch13")[2], "")

    def test_while_another_builds_only_who_needs_the_build_waits(self):
        with Sandbox() as sandbox:
            sandbox.book("ledger", "ch13")
            (sandbox.tools / "slow").touch()
            builder = sandbox.start("build")
            self.assertIn("slow", builder.stderr.readline())
            code, out, err = sandbox.book("ledger", "ch13")
            self.assertEqual((code, out[:8], err), (0, "[ledger]", ""))
            (sandbox.folder / "build" / "default" / "ch13_norm_rope" / "ch13").unlink()
            waiting = sandbox.start("ledger", "ch13")
            said = waiting.stderr.readline()
            for process in (waiting, builder):
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=20)
            self.assertEqual(said, "book: another ./book is building; waiting for it\n")

    def test_run_verifies_before_it_benches_and_stops_there_when_that_fails(self):
        with Sandbox() as sandbox:
            code, out, _ = sandbox.book("run", "ch13", "--device", "cpu", "--quick")
            steps = [line for line in out.splitlines() if line.startswith("== ch13")]
            wanted = ["ledger", "verify --device cpu", "bench --device cpu --quick"]
            self.assertEqual(steps, [f"== ch13 {step}" for step in wanted])
            self.assertIn("[verify]", out)
            self.assertNotIn("[bench]", out)  # what it prints, show prints last
            self.assertEqual(code, 0)
            code, out, err = sandbox.book("run", "ch13", EXIT_CODE="1")
            self.assertEqual(code, 1)
            self.assertNotIn("bench", out)
            self.assertIn("gets no time", err)


class SetUp(unittest.TestCase):
    def test_the_second_run_configures_nothing(self):
        with Sandbox() as sandbox:
            for _ in range(2):
                self.assertEqual(sandbox.book("build")[0], 0)
            kinds = [call.split()[0] for call in sandbox.calls()]
            self.assertEqual(kinds, ["configure", "build", "build"])

    def test_a_folder_that_was_moved_is_built_afresh(self):
        with Sandbox() as sandbox:
            sandbox.book("ledger", "ch13")
            sandbox.folder = sandbox.folder.rename(sandbox.folder.with_name("moved"))
            code, out, err = sandbox.book("ledger", "ch13")
            self.assertEqual((code, out[:8]), (0, "[ledger]"))
            self.assertIn("moved or copied", err)
            self.assertEqual(sum(call.startswith("configure") for call in sandbox.calls()), 2)

    def test_what_was_compiled_for_another_processor_is_built_afresh(self):
        with Sandbox() as sandbox:
            sandbox.book("ledger", "ch13")
            state = sandbox.folder / "build" / "default" / "book-state.json"
            saved = json.loads(state.read_text(encoding="utf-8"))
            saved["surroundings"]["processor"] = "another"
            state.write_text(json.dumps(saved), encoding="utf-8")
            err = sandbox.book("ledger", "ch13")[2]
            self.assertIn("another processor", err)
            self.assertIn("compiling main.cpp", err)

    def test_a_build_that_fails_shows_its_errors_and_where_the_rest_is(self):
        with Sandbox() as sandbox:
            (sandbox.tools / "broken").touch()
            code, out, err = sandbox.book("ledger", "ch13")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("error: no such thing", err)
            self.assertIn("build-default.log", err)

    def test_an_interrupted_build_ends_at_once_and_the_next_run_goes_on(self):
        with Sandbox() as sandbox:
            (sandbox.tools / "slow").touch()
            process = sandbox.start("build")
            while not any(call.startswith("build") for call in sandbox.calls()):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            err = process.communicate(timeout=20)[1]
            self.assertEqual(process.returncode, 130)
            self.assertIn("interrupted", err)
            (sandbox.tools / "slow").unlink()
            self.assertEqual(sandbox.book("build")[0], 0)

    def test_missing_libraries_are_announced_and_then_downloaded(self):
        with Sandbox() as sandbox:
            (sandbox.tools / "no-libraries").touch()
            code, _, err = sandbox.book("build")
            self.assertEqual(code, 0)
            self.assertIn("missing: Catch2 3.4", err)
            self.assertIn("-DOPBOOK_FETCH=ON", sandbox.calls()[1])

    def test_a_compiler_that_is_too_old_is_named_with_what_is_allowed(self):
        with Sandbox() as sandbox:
            sandbox.add_tool(
                "old-c++", "#!/bin/sh\necho '#define __GNUC__ 9'\necho '#define __GNUC_MINOR__ 4'\n"
            )
            code, _, err = sandbox.book("build", CXX="old-c++")
            self.assertEqual(code, 1)
            self.assertIn('CXX: got "old-c++"; allowed: a C++20 compiler (g++ 11', err)
            self.assertEqual(sandbox.calls(), [])


class Doctor(unittest.TestCase):
    """What one line of the report says, of a machine that is made up."""

    def matplotlib_line(self, python):
        out = io.StringIO()
        with (
            mock.patch.object(figures, "python_with_matplotlib", return_value=python),
            mock.patch.object(figures, "remedy", return_value="get matplotlib"),
            redirect_stdout(out),
        ):
            report = doctor.Report()
            doctor.check_python_packages(report)
        self.assertFalse(report.blocked)
        return out.getvalue()

    def test_without_matplotlib_the_command_that_brings_it_is_shown(self):
        line = self.matplotlib_line(python="")
        self.assertEqual(line, "  not here Matplotlib     no figures; to install it: get matplotlib\n")

    def test_with_matplotlib_the_python_that_has_it_is_shown(self):
        line = self.matplotlib_line(python="/opt/python")
        self.assertEqual(line, "  have     Matplotlib     and with it NumPy (/opt/python)\n")


class Installing(unittest.TestCase):
    """What would be run, with nothing run."""

    POLICY = {"catch2": "2.13.10-1", "libcli11-dev": "2.1.2+ds-1", "g++": "4:12.2.0-3"}

    def apt(self, release, madison=""):
        commands = []

        def run(command, *_, **__):
            commands.append(" ".join(command))
            return 0

        def output_of(command, **_):
            if command[1] == "policy":
                return f"  Candidate: {self.POLICY.get(command[2], '99')}\n"
            return madison if command[1] == "madison" else "http://mirror/debian\n"

        with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()) as err:
            source = Path(folder) / "backports.list"
            with (
                mock.patch.object(install, "run_logged", run),
                mock.patch.object(install, "BACKPORTS_FILE", source),
                mock.patch.object(machine, "output_of", output_of),
                mock.patch.object(machine, "os_release", return_value=release),
            ):
                install.apt_install()
            written = source.read_text(encoding="utf-8") if source.exists() else ""
        return commands, written, err.getvalue()

    def test_debian_12_takes_catch2_from_backports(self):
        commands, written, err = self.apt({"ID": "debian", "VERSION_ID": "12"})
        self.assertIn(
            " http://mirror/debian bookworm-backports main", f" {written.split('] ')[-1]}"
        )
        self.assertEqual(
            commands[-1],
            "apt-get install -y --no-install-recommends -t bookworm-backports catch2",
        )
        self.assertNotIn("catch2", commands[-3])
        self.assertIn("backports", err)

    def test_backports_that_are_there_already_are_not_added_again(self):
        madison = (
            " catch2 | 3.7.1-0.4~bpo12+1 | http://mirror bookworm-backports/main amd64 Packages\n"
        )
        commands, written, _ = self.apt({"ID": "debian", "VERSION_ID": "12"}, madison)
        self.assertEqual(written, "")
        self.assertIn("-t bookworm-backports catch2", commands[-1])

    def test_where_the_packages_are_too_old_the_rest_is_left_to_pip_and_downloads(self):
        commands, _, _ = self.apt({"ID": "ubuntu", "VERSION_ID": "22.04"})
        self.assertNotIn("catch2", commands[-1])
        self.assertIn("libcli11-dev", commands[-1])
        self.assertIn("python3-venv ca-certificates", commands[-1])

    def test_where_cmake_is_too_old_pip_can_bring_it_into_a_venv(self):
        def output_of(command, **_):
            return f"  Candidate: {'3.22.1' if command[-1] == 'cmake' else '12.2.0'}\n"

        with (
            mock.patch.object(machine, "system_family", return_value="debian"),
            mock.patch.object(machine, "is_root", return_value=False),
            mock.patch.object(machine, "output_of", output_of),
        ):
            command = install.by_hand(["compiler", "cmake", "ninja"])
        self.assertEqual(command, "sudo apt-get install -y g++ python3-venv")

    def test_the_command_to_type_depends_on_system_and_rights(self):
        cases = (
            ("debian", 1000, "12.2.0", "sudo apt-get install -y g++ cmake"),
            ("debian", 0, "12.2.0", "apt-get install -y g++ cmake"),
            ("debian", 1000, "", "sudo apt-get install -y g++ cmake"),
            ("debian", 1000, "10.2.1", "use a newer release of this system, or a container"),
            ("fedora", 1000, "", "sudo dnf install -y gcc-c++ cmake"),
            ("arch", 1000, "", "sudo pacman -S --needed gcc cmake"),
            ("", 1000, "", "install compiler, cmake with your package manager"),
        )
        for family, user, candidate, expected in cases:
            with (
                self.subTest(family, user=user),
                mock.patch.object(machine, "system_family", return_value=family),
                mock.patch.object(machine, "is_root", return_value=user == 0),
                mock.patch.object(machine, "output_of", return_value=f"  Candidate: {candidate}\n"),
            ):
                self.assertEqual(install.by_hand(["compiler", "cmake"]), expected)


class Looking(unittest.TestCase):
    def test_versions_compare_as_numbers(self):
        self.assertLess(machine.numbers("3.9"), machine.numbers("3.25.1"))
        self.assertEqual(machine.numbers("12.2.0-14+deb12u1"), (12, 2, 0))

    def test_families_are_read_from_os_release(self):
        for release, family in (
            ({"ID": "debian"}, "debian"),
            ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "debian"),
            ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "fedora"),
            ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "suse"),
            ({"ID": "nixos"}, ""),
            ({}, ""),
        ):
            with (
                self.subTest(release),
                mock.patch.object(machine, "os_release", return_value=release),
            ):
                self.assertEqual(machine.system_family(), family)

    def test_compilers_are_told_apart_and_old_ones_passed_over(self):
        gcc = "#define __GNUC__ {}\n#define __GNUC_MINOR__ 2\n"
        clang = gcc.format(4) + "#define __clang_major__ {}\n#define __clang_minor__ 0\n"
        for macros, expected in (
            (gcc.format(12), ("g++", "12.2")),
            (gcc.format(10), None),
            (clang.format(14), ("clang++", "14.0")),
            (clang.format(13), None),
            ("", None),
        ):
            with (
                self.subTest(expected),
                mock.patch.object(machine, "output_of", return_value=macros),
                mock.patch.object(machine.shutil, "which", return_value="/bin/c++"),
            ):
                tool = machine.find_compiler()
                self.assertEqual(tool and (tool.name, tool.version), expected)

    def test_other_systems_are_sent_to_a_container(self):
        with mock.patch.object(machine.sys, "platform", "darwin"):
            self.assertIn("container", machine.unsupported_system())


class Counting(unittest.TestCase):
    VERDICTS = (
        '<Catch2TestRun><TestCase name="on a GPU"><Skip>\n no GPU\n</Skip></TestCase>'
        '<OverallResultsCases successes="5" failures="{}" expectedFailures="1" skips="1"/></Catch2TestRun>'
    )

    def count(self, **files):
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()) as err:
            for name, text in files.items():
                if text is not None:
                    (Path(folder) / f"{name}.xml").write_text(text, encoding="utf-8")
            return (*load_book().count_tests(Path(folder), files), err.getvalue())

    def test_verdicts_are_summed_and_skips_give_their_reasons(self):
        *counts, err = self.count(a=self.VERDICTS.format(0), b=self.VERDICTS.format(2))
        self.assertEqual(counts, [12, 2, 2])
        self.assertIn("skipped: on a GPU (no GPU)", err)

    def test_a_program_that_left_no_verdicts_counts_as_failed(self):
        half = self.VERDICTS.format(0)[:80]
        self.assertEqual(self.count(gone=None, half=half, empty="<a/>")[:3], (0, 3, 0))


if __name__ == "__main__":
    unittest.main()
