"""The manual page and the completions of banyand, against its --help and by the programs for which they are made.

Usage: files_test.py BANYAND PAGE [unittest's arguments]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

COMPLETIONS = pathlib.Path(__file__).resolve().parent / "completions"
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
    """Each offers what the help of the banyand that is found says."""

    def setUp(self):
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(BANYAND).parent}:{os.environ['PATH']}",
                            "TERM": "dumb"}

    def expect(self, offered):
        self.assertGreaterEqual(set(offered.split()), options_of_help())

    def test_of_bash(self):
        library = "/usr/share/bash-completion/bash_completion"
        if not os.path.exists(library):
            self.skipTest("bash-completion is not installed")
        self.expect(output_of("bash", "--norc", "-c", f"""
            source {library}; source {COMPLETIONS}/banyand.bash
            COMP_WORDS=(banyand --) COMP_CWORD=1 COMP_LINE='banyand --' COMP_POINT=10
            [[ $(complete -p banyand) =~ -F\\ ([^ ]+) ]]; "${{BASH_REMATCH[1]}}" banyand -- banyand
            printf '%s\\n' "${{COMPREPLY[@]%=}}" """, env=self.environment))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_of_zsh(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "inside")
            # Every match that would be added goes to a file.
            script.write_text(f"""
                PROMPT= PS2=
                fpath=({COMPLETIONS} $fpath)
                autoload -Uz compinit; compinit -u -D
                bindkey '^I' complete-word
                setopt no_beep
                compadd() {{
                  if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
                  typeset -a hits
                  builtin compadd -A hits "$@"
                  print -rl -- ${{hits%=}} >> {folder}/offers
                }}
                finish() {{ print done: }}
                comppostfuncs=(finish)
                print ready:
                """)
            output_of("zsh", "-f", "-c", f"""
                zmodload zsh/zpty
                zpty shell zsh -f -i
                zpty -w shell "source {script}"
                while zpty -r shell line; do [[ $line == *ready:* ]] && break; done
                zpty -n -w shell "banyand --"$'\\t'
                while zpty -r shell line; do [[ $line == *done:* ]] && break; done
                zpty -d shell""", env=self.environment)
            self.expect(pathlib.Path(folder, "offers").read_text())

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_of_fish(self):
        self.expect(output_of("fish", "--no-config", "-c",
                              f"source {COMPLETIONS}/banyand.fish; complete -C 'banyand --'", env=self.environment))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
