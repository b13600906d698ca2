"""What packaging/version makes of releases, checkouts without tags, and archives."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "version"
IDENTITY = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_COMMITTER_DATE": "2026-12-01T23:30:00-0300",
            **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}


def said(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout.strip()


class Version(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name)
        (self.tree / "packaging").mkdir()
        shutil.copy(SCRIPT, self.tree / "packaging")

    def write(self, version, state):
        (self.tree / "CMakeLists.txt").write_text(f"project(banyan VERSION {version} LANGUAGES C CXX)\n")
        (self.tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} ({state})\n\n## 0.1.0 (2026-01-01)\n")

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def git(self, *arguments):
        return said("git", *arguments, cwd=self.tree, env=IDENTITY)

    def version(self, form):
        return said(self.tree / "packaging/version", form)

    def test_of_a_release_is_plain(self):
        self.write("0.2.0", "2026-11-29")
        self.assertEqual([self.version(form) for form in ("python", "debian", "file")], ["0.2.0"] * 3)

    def test_between_releases_counts_commits_since_the_one_that_opened_it(self):
        self.git("init", "-q")
        self.write("0.2.0", "2026-11-29")
        self.commit()
        self.write("0.3.0", "not released")
        self.commit()
        self.commit()
        commit = self.git("rev-parse", "HEAD")[:8]
        self.assertEqual(self.version("python"), f"0.3.0.dev2+g{commit}")
        self.assertEqual(self.version("debian"), f"0.3.0~git20261202.{commit}")  # the day in Greenwich

    def test_of_an_archive_is_in_its_file(self):
        self.write("0.3.0", "not released")
        (self.tree / "VERSION").write_text("0.3.0.dev12+g1234abcd 20261129\n")
        self.assertEqual(self.version("python"), "0.3.0.dev12+g1234abcd")
        self.assertEqual(self.version("debian"), "0.3.0~git20261129.1234abcd")

    def test_without_git_and_file_names_no_commit(self):
        self.write("0.3.0", "not released")
        self.assertEqual((self.version("python"), self.version("debian")), ("0.3.0.dev0", "0.3.0~dev0"))

    @unittest.skipIf(shutil.which("dpkg") is None, "no dpkg here")
    def test_ages_are_in_order(self):
        ages = ["0.2.0-1", "0.3.0~dev0-1", "0.3.0~git20261129.ffffffff-1", "0.3.0~git20261130.00000000-1", "0.3.0-1"]
        for older, newer in zip(ages, ages[1:]):
            said("dpkg", "--compare-versions", older, "lt", newer)


if __name__ == "__main__":
    unittest.main()
