"""The manual page of banyand, against its --help and by the programs for which it is made; what it says to completions.

Usage: files_test.py BANYAND PAGE [unittest's arguments]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

BANYAND, PAGE = map(os.path.abspath, sys.argv[1:3])


def output_of(*command, **options):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                           stdin=subprocess.DEVNULL, **options)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def options_of_help():
    return set(re.findall(r"(?m)^ +(?:-[a-zA-Z], )?(--[a-z-]+)", output_of(BANYAND, "--help")))


class CommandLine(unittest.TestCase):
    """Is that of `banyan`."""

    def refusal_of(self, *words):
        ended = subprocess.run([BANYAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                               stdin=subprocess.DEVNULL)
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
        return ended.stderr

    def test_says_the_version(self):
        for option in ("--version", "-V"):
            self.assertRegex(output_of(BANYAND, option), r"\Abanyand \d+\.\d+\.\d+\S*\n\Z")

    def test_has_help_of_80_columns_in_plain_words(self):
        help = output_of(BANYAND, "--help", env={**os.environ, "TERM": "dumb"})
        self.assertLessEqual(max(map(len, help.splitlines())), 100, "examples are not broken")
        for word in ("FLOAT", "UINT", " in ["):
            self.assertNotIn(word, help)

    def test_names_what_is_wrong(self):
        self.assertIn("'--sokcet' (did you mean '--socket'?)", self.refusal_of("--sokcet", "a"))
        self.assertIn("--payload: is 2; give a part from 0.1 to 1", self.refusal_of("--payload", "2"))
        self.assertIn("--workers", self.refusal_of("--workers", "0"))
        self.assertIn("--ds-field", self.refusal_of("--ds-field", "high"))


class Page(unittest.TestCase):
    def setUp(self):
        self.text = pathlib.Path(PAGE).read_text()

    def test_has_the_options_of_the_help_and_no_others(self):
        known = options_of_help() | {"--help"}  # which the help does not tell of itself
        self.assertGreaterEqual(known, {"--help", "--version", "--socket", "--world"})
        plain = re.sub(r"\\(-)|\\f[BIR]", r"\1", self.text)
        section = re.search(r"(?s)\.SH OPTIONS\n(.*?)\.SH ", plain)[1]
        self.assertEqual(set(re.findall(r"(?m)^(?:-[a-zA-Z], )?(--[a-z-]+)", section)), known)

    def test_is_ascii_and_has_a_date_and_a_version(self):
        self.assertTrue(self.text.isascii())
        self.assertRegex(self.text, r'\.TH BANYAND 8 "\d{4}-\d\d-\d\d" "banyan \d+\.\d+\.\d+\S*" "Banyan"')

    def test_is_read_without_a_warning(self):
        for reader in (["groff", "-ww", "-man", "-Tutf8", "-z"], ["mandoc", "-Tlint", "-Wwarning"],
                       ["man", "--warnings", "-l", "-Tutf8", "-Z"]):
            with self.subTest(reader[0]):
                if not shutil.which(reader[0]):
                    self.skipTest(f"{reader[0]} is not installed")
                said = output_of(*reader, PAGE)
                self.assertEqual("" if reader[0] == "man" and "warning" not in said else said, "")


class Completions(unittest.TestCase):
    """Ask it; shells do that by the scripts of banyan, whose tests are in apps/shell_files_test.cc."""

    def test_offer_the_options_of_the_help_and_files(self):
        offered = output_of(BANYAND, "__complete", "--").splitlines()
        self.assertEqual({line.split("\t")[0] for line in offered}, options_of_help() | {"--help"})
        self.assertEqual(output_of(BANYAND, "__complete", "--socket", ""), ":files\t\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
