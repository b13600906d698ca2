#!/usr/bin/env python3
"""Runs the tests of the PyTorch backend, one line each.

    run.py [-k PATTERN]... [--slow] [--seed N] [--backend NAME] [FILE | FILE.CLASS.TEST]...

FILE is test_collectives or the like; without any, all run. Prints `N passed, N failed, N skipped` at the end and exits
with 1 if any failed. PYTHONPATH must lead to the package banyan_torch, unless the backend is gloo.
"""

import argparse
import os
import pathlib
import sys
import time
import unittest

kFolder = pathlib.Path(__file__).resolve().parent


class Lines(unittest.TestResult):
    """Prints a line for each test when it has ended."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.reports = []
        self._start = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._start = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self._line("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._report("FAILED", test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._report("FAILED", test, self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("skipped", test, f" - {reason}")

    def failed(self):
        return len(self.failures) + len(self.errors)

    def _report(self, word, test, text):
        self._line(word, test)
        print("    " + text.rstrip().replace("\n", "\n    "), flush=True)

    def _line(self, word, test, more=""):
        print(f"{word:8}{time.monotonic() - self._start:6.2f} s  {test.id()}{more}", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description="tests of the PyTorch backend")
    parser.add_argument("names", nargs="*", help="test_collectives, or test_works.Futures.test_x; all by default")
    parser.add_argument("-k", dest="patterns", action="append", metavar="PATTERN",
                        help="only tests whose name contains PATTERN, or matches it if it has a *")
    parser.add_argument("--slow", action="store_true", help="the slow ones, too")
    parser.add_argument("--seed", type=int, help="of all data; by default another one in each run")
    parser.add_argument("--backend", help="banyan or gloo; by default BANYAN_TEST_BACKEND, else banyan")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.slow:
        os.environ["BANYAN_TEST_SLOW"] = "1"
    if arguments.seed is not None:
        os.environ["BANYAN_TEST_SEED"] = str(arguments.seed)
    if arguments.backend:
        os.environ["BANYAN_TEST_BACKEND"] = arguments.backend
    sys.path.insert(0, str(kFolder))
    import ranks

    loader = unittest.TestLoader()
    if arguments.patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in arguments.patterns]
    names = arguments.names or sorted(path.stem for path in kFolder.glob("test_*.py"))
    tests = loader.loadTestsFromNames([name.removesuffix(".py") for name in names])
    try:
        ranks.register_backend(ranks.backend())
    except ImportError as error:
        sys.exit(f"run.py: cannot import the backend: {error}; put the folder of banyan_torch into PYTHONPATH, "
                 "or give --backend gloo")
    print(f"backend {ranks.backend()}, seed {ranks.seed()}", flush=True)
    ranks.warm_up()
    result = Lines()
    start = time.monotonic()
    tests.run(result)
    print(f"{result.passed} passed, {result.failed()} failed, {len(result.skipped)} skipped "
          f"in {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(1 if result.failed() else 0)


if __name__ == "__main__":
    main()
