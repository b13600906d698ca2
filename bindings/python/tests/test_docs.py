"""The examples of the package's documentation and of docs/python.md do what they show."""
import doctest
import os
import pathlib
import tempfile
import unittest

import banyan
import banyan._bound
import banyan._fabric
import banyan._jobs
import banyan._plan
import banyan._predict
import banyan._step

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "python.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)  # examples write files

    def run_examples(self, test):
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        told = []
        runner.run(test, out=told.append)
        self.assertEqual(runner.failures, 0, "".join(told))
        return runner.tries

    def test_of_the_package(self):
        tried = 0
        finder = doctest.DocTestFinder()
        for module in (banyan, banyan._bound, banyan._fabric, banyan._jobs, banyan._plan, banyan._predict,
                       banyan._step):
            for test in finder.find(module, module.__name__):
                tried += self.run_examples(test)
        self.assertGreaterEqual(tried, 10)

    def test_of_the_page(self):
        # A line of three backticks ends an example.
        text = PAGE.read_text(encoding="utf-8").replace("\n```\n", "\n\n")
        test = doctest.DocTestParser().get_doctest(text, {}, "docs/python.md", str(PAGE), 0)
        self.assertGreaterEqual(self.run_examples(test), 20)


if __name__ == "__main__":
    unittest.main()
