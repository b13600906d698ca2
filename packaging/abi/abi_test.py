"""Holds libbanyan against the interface of the release whose SOVERSION it has: programs that were built then run now.

Usage: abi_test.py BUILD CMAKE C_COMPILER [unittest's arguments]

libbanyan-0.2.abi is what abidw says of the library of 0.2.0, with its functions first. What may be added is allowed;
what must not go or change is shown by changing the header in each such way. Made by
  abidw --exported-interfaces-only --drop-private-types --headers-dir include --no-architecture --no-elf-needed
    --no-corpus-path --no-comp-dir-path --no-show-locs build/abi/libbanyan.so
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include"
BUILD, CMAKE, CC = (pathlib.Path(sys.argv[1]), *sys.argv[2:4])


def output_of(*command):
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ended.returncode, ended.stdout


def difference(old, new, *headers):
    """What abidiff finds that programs built with `old` would notice; empty: nothing."""
    folders = [word for number, folder in enumerate(headers, 3 - len(headers))
               for word in (f"--headers-dir{number}", folder)]
    code, said = output_of("abidiff", "--no-architecture", "--exported-interfaces-only", "--drop-private-types",
                           "--no-added-syms", "--suppressions", HERE / "allowed.suppr", *folders, old, new)
    if code & 3:
        raise AssertionError(f"abidiff fails: {said}")
    return said if code else ""


class Library(unittest.TestCase):
    def test_runs_programs_of_before(self):
        code, said = output_of(CMAKE, "--build", BUILD, "--target", "banyan_c_described")
        self.assertEqual(code, 0, said)
        self.assertEqual(difference(HERE / "libbanyan-0.2.abi", BUILD / "abi/libbanyan.so", HEADERS), "")

    def test_has_every_function_of_before_and_debian_knows_all(self):
        _, said = output_of("readelf", "--dyn-syms", "--wide", BUILD / "bindings/c/libbanyan.so")
        functions = set(re.findall(r" (\w+)@@BANYAN_0$", said, re.MULTILINE))
        before = re.findall(r"<elf-symbol name='(\w+)'", (HERE / "libbanyan-0.2.abi").read_text())
        self.assertEqual(len(before), 126)
        self.assertEqual(set(before) - functions, set())
        known = (HERE.parent.parent / "debian/libbanyan0.symbols").read_text()
        self.assertEqual(set(re.findall(r"^ (\w+)@BANYAN_0 ", known, re.MULTILINE)) - {"BANYAN_0"}, functions)


class Rules(unittest.TestCase):
    """Of a library that has the functions of the header, and nothing in them."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.header = (HEADERS / "banyan/banyan.h").read_text()
        self.before = self.library("before", self.header)

    def library(self, name, header):
        headers = self.folder / name
        (headers / "banyan").mkdir(parents=True)
        (headers / "banyan/banyan.h").write_text(header)
        functions = re.findall(r"^(?:int|size_t|const char\*|banyan_result_t) \w+\([^;{]*\);", header, re.MULTILINE)
        self.assertGreater(len(functions), 50)
        source = self.folder / f"{name}.c"
        source.write_text("#include <banyan/banyan.h>\n" + "".join(
            each.removesuffix(";") + " { __builtin_trap(); }\n" for each in functions))
        library = self.folder / f"{name}.so"
        code, said = output_of(CC, "-w", "-g", "-shared", "-fPIC", "-I", headers, source, "-o", library)
        self.assertEqual(code, 0, said)
        return library, headers

    def difference(self, pattern, replacement):
        header, count = re.subn(pattern, replacement, self.header, count=1, flags=re.DOTALL | re.MULTILINE)
        self.assertEqual(count, 1, pattern)
        after = self.library("after", header)
        return difference(self.before[0], after[0], self.before[1], after[1])

    def test_additions_pass(self):
        for name, change in {
                "a function": (r"^int banyan_get_version", r"int banyan_new(void);\nint banyan_get_version"),
                "a field at the end": (r"\} banyan_config_t;", r"int added; } banyan_config_t;"),
                "a number of an enumeration": (r"(BANYAN_FLOAT32_AS_SIGN = 26)", r"\1, BANYAN_NEW = 27")}.items():
            with self.subTest(name):
                self.assertEqual(self.difference(*change), "")
                shutil.rmtree(self.folder / "after")

    def test_removals_and_changes_fail(self):
        for name, change in {
                "a function less": (r"^int banyan_get_version\(void\);", ""),
                "another argument": (r"(banyan_comm_count\(banyan_comm_t comm, )int\*", r"\1long*"),
                "another result": (r"^size_t banyan_type_size", "int banyan_type_size"),
                "a field in between": (r"double timeout;", "double added, timeout;"),
                "a field less": (r"double timeout;", ""),
                "a longer structure without a size": (r"char text\[256\]", "char text[512]"),
                "another number": (r"BANYAN_FLOAT32_AS_SIGN = 26", "BANYAN_FLOAT32_AS_SIGN = 27"),
                "a number less": (r"  BANYAN_BXOR = 7\n", "")}.items():
            with self.subTest(name):
                self.assertNotEqual(self.difference(*change), "")
                shutil.rmtree(self.folder / "after")


if __name__ == "__main__":
    if shutil.which("abidiff") is None:
        print("skipped: abidiff is missing ('tools/deps abi' installs it)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
