"""What `banyand --check` says of options and files that are wrong.

Usage: check_test.py BANYAND [unittest's arguments]
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

BANYAND = os.path.abspath(sys.argv[1])


class Check(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="banyan-check-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.secret = self.write("secret", "0123456789abcdef0123456789abcdef", 0o600)
        self.rules = self.write("rules.json", '{"version": 1, "rules": []}')

    def write(self, name, text, mode=0o644):
        file = self.folder / name
        file.write_text(text)
        file.chmod(mode)
        return file

    def check(self, *options, **variables):
        """The exit code, what it says is wrong, and its notes."""
        ended = subprocess.run([BANYAND, "--check", *map(str, options)], capture_output=True, text=True, timeout=60,
                               stdin=subprocess.DEVNULL, env={**os.environ, **variables})
        lines = [line.removeprefix("banyand: ") for line in ended.stderr.splitlines()]
        wrong = [line for line in lines if not line.startswith("note: ")]
        self.assertEqual(ended.stdout == "", ended.returncode != 0, ended.stdout)
        return ended.returncode, wrong, [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]

    def expect_wrong(self, *options, words, **variables):
        code, wrong, notes = self.check(*options, **variables)
        self.assertEqual((code, len(wrong), notes), (2, len(words), []), wrong)
        for line, word in zip(wrong, words):
            self.assertIn(word, line)

    def test_finds_nothing_where_nothing_is_wrong_and_leaves_nothing_behind(self):
        self.assertEqual(self.check(), (0, [], []))
        before = sorted(self.folder.iterdir())
        self.assertEqual(
            self.check("--socket", self.folder / "run/deep/banyand.sock", "--operators", "", "--http", "127.0.0.1:0",
                       "--world", f"file://{self.folder}", "--secret-file", self.secret, "--rules", self.rules,
                       "--fabric", "a <-> b 100Gb/s", "--node", "b", "--workers", "2", "--ds-field", "high=CS4"),
            (0, [], []))
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_names_all_that_is_wrong_a_line_for_each(self):
        self.rules.write_text('{"version": 1, "rules": [{}]}')
        self.secret.chmod(0o644)
        self.expect_wrong("--payload", "2", "--workers", "0", "--ds-field", "high", "--http-host", "a/b", "--socket",
                          "x" * 200, "--operators", "y" * 200, "--http", "127.0.0.1", "--world", "etcd://", "--address",
                          "nowhere", "--secret-file", self.secret, "--fabric", "ring:", "--rules", self.rules,
                          BANYAN_LOG="loud",
                          words=["--payload", "--workers", "--ds-field", "--http-host", "BANYAN_LOG", "--socket",
                                 "--operators", "--http", "--world", "--address", "chmod 600", "ring:", "rules.json"])

    def test_names_files_that_are_missing(self):
        for option in ("--rules", "--secret-file", "--fabric", "--routes"):
            with self.subTest(option):
                self.expect_wrong(option, self.folder / "missing.json", words=["missing.json"])

    def test_names_folders_in_which_no_socket_can_be(self):
        everybody = self.folder / "everybody"
        everybody.mkdir()
        everybody.chmod(0o777)
        self.expect_wrong("--socket", everybody / "banyand.sock", words=["everybody may write"])
        if os.geteuid() != 0:
            self.expect_wrong("--operators", "/operator.sock", words=["may make nothing in /"])

    def test_knows_a_host_that_is_not_in_the_fabric(self):
        fabric = "a <-> sw0 100Gb/s; b <-> sw0 100Gb/s"
        for node, words in (("c", "'c'"), ("sw0", "is no rank")):
            self.expect_wrong("--fabric", fabric, "--node", node, words=[words])

    def test_notes_what_may_come_and_what_is_hardly_meant(self):
        self.rules.write_text('{"version": 1, "rules": [{"name": "r", "match": {"tenant": "t"}, '
                              '"then": {"weight": 9}}]}')
        code, wrong, notes = self.check("--world", f"file://{self.folder}/later", "--address", "192.0.2.1", "--rules",
                                        self.rules)
        self.assertEqual((code, wrong, len(notes)), (0, [], 3), notes)
        for note, words in zip(notes, ("later", "192.0.2.1", "--rules: ")):
            self.assertIn(words, note)

    def test_says_the_same_while_a_daemon_runs(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.bind(str(self.folder / "banyand.sock"))
            other.listen()
            self.assertEqual(self.check("--socket", self.folder / "banyand.sock"), (0, [], []))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_looks_at_certificates_for_etcd(self):
        def made(name, days):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-days", str(days), "-subj", f"/CN={name}", "-keyout", self.folder / f"{name}.key",
                            "-out", self.folder / f"{name}.pem"], check=True, capture_output=True)
            return self.folder / f"{name}.pem", self.folder / f"{name}.key"

        certificate, key = made("a", 2)
        _, key_of_another = made("b", 2)
        world = ("--world", "etcds://etcd.example:2379/banyan")
        right = {"ETCDCTL_CACERT": str(certificate), "ETCDCTL_CERT": str(certificate), "ETCDCTL_KEY": str(key)}
        self.assertEqual(self.check(*world, **right), (0, [], []))
        for name, value, words in (("ETCDCTL_CACERT", self.folder / "missing.pem", "missing.pem"),
                                   ("ETCDCTL_CACERT", key, "no certificate"),
                                   ("ETCDCTL_CERT", self.rules, "no certificate"),
                                   ("ETCDCTL_KEY", certificate, "no key"),
                                   ("ETCDCTL_KEY", key_of_another, "is not the key of"),
                                   ("ETCDCTL_KEY", "", "go together")):
            with self.subTest(f"{name}={value}"):
                self.expect_wrong(*world, **{**right, name: str(value)}, words=[words])
        # Without TLS they are not looked at.
        self.assertEqual(self.check("--world", "etcd://a:1/b", **{**right, "ETCDCTL_KEY": "/missing"}), (0, [], []))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
