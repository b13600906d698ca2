"""Tests of tools/run-tests: tests that pass, fail, fail beside others only, or are skipped."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).with_name("run-tests")


class RunTests(unittest.TestCase):

    def run_tool(self, tests):
        """Each is a shell command by name, in a folder of its own. What was printed, and the exit status."""
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for name, command in tests.items():
                lines.append(f'add_test([=[{name}]=] "sh" "-c" [=[{command}]=])')
                lines.append(f'set_tests_properties([=[{name}]=] PROPERTIES SKIP_RETURN_CODE 77)')
            pathlib.Path(folder, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            done = subprocess.run([sys.executable, TOOL, folder, "-j", "3"], capture_output=True, text=True)
            return done.stdout, done.returncode

    def test_counts(self):
        text, status = self.run_tool({"a.passes": "true", "b.is/skipped": "exit 77"})
        self.assertEqual((text.splitlines()[-1], status), ("1 passed, 0 failed, 1 skipped", 0))

    def test_says_who_fails(self):
        text, status = self.run_tool({"a.passes": "true", "b.fails": "false"})
        self.assertEqual(text.splitlines()[-2:], ["failed: b.fails", "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_says_who_passes_alone_and_takes_it_for_failed(self):
        text, status = self.run_tool({"a.passes": "true", "b.passes/later": "test -e seen || { touch seen; exit 1; }"})
        self.assertEqual(text.splitlines()[-2:],
                         ["failed: b.passes/later (it passes alone)", "1 passed, 1 failed, 0 skipped"])
        self.assertEqual(status, 1)

    def test_runs_many_only_once(self):
        tests = {f"t.{number}": f"test -e seen{number} || {{ touch seen{number}; exit 1; }}" for number in range(13)}
        text, status = self.run_tool(tests)
        self.assertEqual((text.splitlines()[-1], status), ("0 passed, 13 failed, 0 skipped", 1))

    def test_refuses_a_folder_without_tests(self):
        self.assertNotEqual(self.run_tool({})[1], 0)


if __name__ == "__main__":
    unittest.main()
