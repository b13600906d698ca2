"""The scripts of deploy/slurm, run with the variables that Slurm sets.

Usage: slurm_test.py BANYAND ALLREDUCE [unittest's arguments]
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "slurm"
# What every script finds, and no more: those of Slurm begin with little.
NEEDED = ("sh", "uname", "tr")


class Scripts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="banyan-slurm-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "bin").mkdir()
        for program in NEEDED:
            (self.folder / "bin" / program).symlink_to(shutil.which(program))
        self.socket = self.folder / "banyand.sock"

    def listen(self):
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listening.close)
        listening.bind(str(self.socket))
        listening.listen()

    def use_systemctl(self, script):
        """In place of the program; what it is asked is kept."""
        file = self.folder / "bin/systemctl"
        file.write_text(f"#!/bin/sh\necho \"$*\" >>{self.folder}/asked\n{script}\n")
        file.chmod(0o755)

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()

    def run_script(self, name, **variables):
        environment = {"PATH": str(self.folder / "bin"), "SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "1000",
                       "SLURM_JOB_USER": "alice", "BANYAN_SOCKET": str(self.socket), **variables}
        ended = subprocess.run([SCRIPTS / name], env=environment, capture_output=True, text=True, timeout=30)
        return ended.returncode, ended.stdout.splitlines(), ended.stderr

    # ---- Before each task ----

    def test_a_task_is_told_the_service_and_its_tenant(self):
        self.listen()
        code, said, words = self.run_script("task_prolog", SLURM_JOB_ACCOUNT="physics")
        self.assertEqual((code, words), (0, ""))
        self.assertEqual(said, [f"export BANYAN_SERVICE=unix:{self.socket}", "export BANYAN_TENANT=physics"])

    def test_the_tenant_is_the_job_where_there_is_no_account_or_where_it_is_asked_for(self):
        self.listen()
        for variables in ({}, {"SLURM_JOB_ACCOUNT": "physics", "BANYAN_SLURM_TENANT": "job"}):
            self.assertIn("export BANYAN_TENANT=job-4711", self.run_script("task_prolog", **variables)[1])
        said = self.run_script("task_prolog", BANYAN_SLURM_TENANT="queue")[1]
        self.assertIn("export BANYAN_TENANT=job-4711", said)
        self.assertTrue(any(line.startswith("print ") and "'queue'" in line for line in said), said)

    def test_what_the_user_has_set_stays(self):
        self.listen()
        self.assertEqual(self.run_script("task_prolog", BANYAN_SERVICE="unix:/other")[1], [])
        self.assertEqual(self.run_script("task_prolog", BANYAN_TRANSPORT="tcp")[1], [])
        self.assertEqual(self.run_script("task_prolog", BANYAN_TENANT="mine")[1],
                         [f"export BANYAN_SERVICE=unix:{self.socket}"])

    def test_a_name_cannot_add_a_line(self):
        self.listen()
        said = self.run_script("task_prolog", SLURM_JOB_ACCOUNT="a\nexport PATH=/evil")[1]
        self.assertEqual(said[1:], ["export BANYAN_TENANT=aexportPATHevil"])

    def test_without_the_service_a_task_is_told_so_and_goes_on(self):
        code, said, _ = self.run_script("task_prolog")
        self.assertEqual((code, len(said)), (0, 1))
        self.assertTrue(said[0].startswith("print banyan: ") and str(self.socket) in said[0], said)

    # ---- Before and after each job ----

    def test_a_job_begins_where_the_service_listens(self):
        self.listen()
        self.assertEqual(self.run_script("prolog"), (0, [], ""))

    def test_a_job_does_not_begin_without_the_service(self):
        code, _, words = self.run_script("prolog")
        self.assertEqual(code, 1)
        self.assertIn(f"there is no socket at {self.socket}", words)
        self.assertIn("job 4711", words)

    def test_the_service_is_started_where_systemd_keeps_it(self):
        self.listen()
        self.use_systemctl("exit 0")
        self.assertEqual(self.run_script("prolog")[0], 0)
        self.assertIn("start banyand.service", self.asked())
        self.use_systemctl('[ "$1" != start ]')
        code, _, words = self.run_script("prolog")
        self.assertEqual(code, 1)
        self.assertIn("does not start", words)

    def test_it_is_not_started_where_somebody_else_keeps_it(self):
        self.listen()
        self.use_systemctl('exit 1')
        self.assertEqual(self.run_script("prolog")[0], 0)
        self.assertNotIn("start banyand.service", self.asked())

    def test_a_node_whose_service_has_failed_takes_no_further_job(self):
        self.assertEqual(self.run_script("epilog"), (0, [], ""))
        self.use_systemctl("exit 1")  # nothing has failed
        self.assertEqual(self.run_script("epilog"), (0, [], ""))
        self.use_systemctl('[ "$3" = banyand.service ]')
        code, _, words = self.run_script("epilog")
        self.assertEqual(code, 1)
        self.assertIn("banyand.service has failed", words)

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shellcheck_finds_nothing(self):
        ended = subprocess.run(["shellcheck", "--shell=sh", *sorted(SCRIPTS.iterdir())], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
