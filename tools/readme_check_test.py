"""Tests of tools/readme-check, on pages and a program written here: what it must find, and what it must let pass."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

FAKE_BANYAN = """#!/bin/sh
[ "$1" = --help ] && { printf 'Commands:\\n  plan   Plan.\\n'; exit 0; }
[ "$2" = --help ] && { printf 'Options:\\n  -o FILE, --output FILE  writes it\\n  --fail NODE\\n'; exit 0; }
[ "$1" = run ] && { echo "ran in 17.5 ms at 3.25 GB/s"; exit 0; }
[ "$1" = plan ] || { echo "banyan: unknown command $1"; exit 2; }
echo "bound 457.14 GB/s"
echo "trees 64"
"""


def load():
    loader = importlib.machinery.SourceFileLoader("readme_check", str(HERE / "readme-check"))
    spec = importlib.util.spec_from_loader("readme_check", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class ReadmeCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="readme-check-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.tool = load()
        self.tool.tree.ROOT = self.root
        for path, text in {
                "build/banyan": FAKE_BANYAN, "include/banyan/banyan.h": "#define BANYAN_SUM 0\nint banyan_send(void);\n",
                "bindings/c.cc": 'getenv("BANYAN_LOG");\n', "Makefile": ".PHONY: all test\n", "examples/a.json": "{}\n", "tools/x": "",
                "bench/x": "", "bench/peers/x": "", "docs/other.md": "# Another page\n\n`BANYAN_LOG`\n"}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        (self.root / "build/banyan").chmod(0o755)

    def check(self, page, *arguments):
        """The exit code and the output of the tool for a README with this text."""
        (self.root / "README.md").write_text(page)
        told, arguments_before = io.StringIO(), sys.argv
        sys.argv = ["readme-check", "--build", str(self.root / "build"), *arguments]
        try:
            with contextlib.redirect_stdout(told):
                status = self.tool.main()
        finally:
            sys.argv = arguments_before
        return status, told.getvalue()

    def assert_finds(self, page, words, *arguments):
        status, told = self.check(page, *arguments)
        self.assertEqual(status, 1, told)
        self.assertIn(words, told)

    def assert_clean(self, page, *arguments):
        status, told = self.check(page, *arguments)
        self.assertEqual(status, 0, told)
        return told

    def test_runs_commands_that_succeed(self):
        told = self.assert_clean("```\nbanyan plan ring:4   # a comment\nexport X=1\ntest $X = 1\n```\n")
        self.assertIn("3 commands run", told)

    def test_finds_an_exit_code_other_than_documented(self):
        page = "```sh\nbanyan paln ring:4\n```\n"
        self.assert_finds(page, "README.md:2: 'banyan paln ring:4' ended with exit code 2")
        self.assert_clean("<!-- readme-check: exit 2 -->\n```sh\nbanyan paln ring:4\n```\n")
        self.assert_finds("<!-- readme-check: exit 2 -->\n\n```sh\nbanyan plan ring:4\n```\n", "exit code 0, not 2")

    def test_finds_output_other_than_shown(self):
        self.assert_clean("    $ banyan plan ring:4\n    bound 457.14 GB/s\n    trees 64\n")
        self.assert_finds("    $ banyan plan ring:4\n    bound 457.15 GB/s\n    trees 64\n", "bound 457.15")
        self.assert_finds("    $ banyan plan ring:4\n    bound 457.14 GB/s\n", "nothing more")
        self.assert_clean("    $ banyan plan ring:4\n    bound ... GB/s\n    ...\n")
        self.assert_finds("    $ banyan plan ring:4\n    ...\n    trees 65\n", "trees 65")

    def test_lets_measured_figures_differ(self):
        self.assert_clean("```console\n$ banyan run x\nran in 9.1 s at 120 GB/s\n```\n")
        self.assert_finds("```console\n$ banyan run x\nwalked in 9.1 s at 120 GB/s\n```\n", "walked")

    def test_takes_continued_lines_and_documents_as_one_command(self):
        told = self.assert_clean("```sh\ncat > f <<'END'\nbanyan nonsense\nEND\necho one \\\n  two\nfor i in 1 2; do\n"
                                 "  echo $i\ndone\n```\n")
        self.assertIn("3 commands run", told)

    def test_blocks_of_a_page_share_a_folder(self):
        self.assert_clean("```sh\nbanyan plan ring:4 > plan.txt\n```\ntext\n```sh\ntest -s plan.txt\n```\n")

    def test_skips_what_a_comment_says_and_names_the_reason(self):
        page = "<!-- readme-check: for 'make': takes minutes -->\n```\nmake test\nbanyan plan ring:4\n```\n"
        told = self.assert_clean(page)
        self.assertIn("skipped, takes minutes: make test", told)
        self.assertIn("1 commands run, 1 skipped", told)
        self.assert_finds(page.replace("for 'make'", "for 'ninja'"), "no command of the block contains 'ninja'")

    def test_leaves_slow_commands_to_the_slow_run(self):
        page = "<!-- readme-check: slow -->\n```\nbanyan paln ring:4\n```\n"
        self.assert_clean(page)
        self.assert_finds(page, "exit code 2", "--slow")

    def test_ends_what_takes_too_long(self):
        self.assert_finds("<!-- readme-check: seconds 1 -->\n```sh\nsleep 600\n```\n", "had not ended 1 s after")

    def test_never_runs_what_changes_the_machine(self):
        self.assert_finds("```sh\nsudo touch /touched\n```\n", "changes the machine")

    def test_runs_a_setup_first(self):
        self.assert_clean("<!-- readme-check: setup touch given -->\n```sh\ntest -f given\n```\n")

    def test_finds_links_that_lead_nowhere(self):
        self.assert_clean("[a](docs/other.md#another-page) [b](https://example.org)\n")
        self.assert_finds("[a](docs/absent.md)\n", "leads nowhere")
        self.assert_finds("[a](docs/other.md#no-such)\n", "no heading for #no-such")

    def test_finds_files_that_are_not_there(self):
        self.assert_clean("`examples/a.json`\n")
        self.assert_finds("```sh\nbanyan plan examples/b.json\n```\n", "examples/b.json is not in the tree")
        self.assert_clean("`make all`\n")
        self.assert_finds("`make tset`\n", "the Makefile has no target tset")

    def test_finds_options_that_do_not_exist(self):
        self.assert_clean("`--fail` and `banyan plan -o x`; `cmake --build`\n")
        self.assert_finds("`--fial`\n", "no command has the option --fial")
        page = "<!-- readme-check: a placeholder -->\n```\nbanyan plan X --root 3\n```\n"
        self.assert_finds(page, "no option --root")

    def test_finds_variables_and_names_that_do_not_exist(self):
        self.assert_clean("`BANYAN_SUM`, `banyan_send`\n")
        self.assert_finds("`BANYAN_LOUD`\n", "BANYAN_LOUD is no variable")
        self.assert_finds("`banyan_sned`\n", "banyan_sned is declared nowhere")
        (self.root / "docs/other.md").write_text("# Another page\n")
        self.assert_finds("text\n", "BANYAN_LOG: the sources read this variable, and no page tells of it")


if __name__ == "__main__":
    unittest.main()
