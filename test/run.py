"""Runs the Python tests. --xml FILE keeps their verdicts, in the form of Catch2's programs."""

import argparse
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path


def write_verdicts(file: Path, result: unittest.TestResult) -> None:
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    root = xml.Element("Catch2TestRun", name="python")
    for test, reason in result.skipped:
        case = xml.SubElement(root, "TestCase", name=str(test))
        xml.SubElement(case, "Skip").text = reason
    counts = {
        "successes": result.testsRun - bad - len(result.skipped) - len(result.expectedFailures),
        "failures": bad,
        "expectedFailures": len(result.expectedFailures),
        "skips": len(result.skipped),
    }
    names = {name: str(count) for name, count in counts.items()}
    xml.SubElement(root, "OverallResultsCases", names)
    xml.ElementTree(root).write(file, encoding="utf-8")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    parser = argparse.ArgumentParser()
    parser.add_argument("--xml", type=Path)
    given = parser.parse_args()
    tests = unittest.defaultTestLoader.discover(str(Path(__file__).parent))
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    if given.xml:
        write_verdicts(given.xml, result)
    sys.exit(0 if result.wasSuccessful() else 1)
