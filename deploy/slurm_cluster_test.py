"""The scripts of deploy/slurm in a real Slurm of one node, with its own munge, in a temporary folder.

Usage: slurm_cluster_test.py BANYAND ALLREDUCE [unittest's arguments]
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "slurm"
BANYAND, ALLREDUCE = map(os.path.abspath, sys.argv[1:3])
PATIENCE = 60
NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "scontrol")
CONFIG = """
ClusterName=banyan-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=2
Prolog={folder}/prolog
Epilog={folder}/epilog
TaskProlog={folder}/task_prolog
PrologFlags=Alloc
NodeName={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""

if os.geteuid() != 0 or any(shutil.which(program) is None for program in NEEDED):
    print("skipped: a Slurm of one's own wants root, slurm-wlm and munge (tools/deps deploy installs these)")
    sys.exit(77)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="banyan-slurm-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.folder.chmod(0o755)
        cls.host = os.uname().nodename
        for name in ("state", "spool", "bin", "run"):
            (cls.folder / name).mkdir()
        cls.socket = cls.folder / "run/banyand.sock"
        # Slurm gives a script few variables, and no PATH. So these come before it.
        for name in ("prolog", "epilog", "task_prolog"):
            script = cls.folder / name
            script.write_text(f"#!/bin/sh\nexport BANYAN_SOCKET={cls.socket} PATH={cls.folder}/bin:/usr/bin:/bin\n"
                              f"exec {SCRIPTS / name}\n")
            script.chmod(0o755)
        key = cls.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        (cls.folder / "slurm.conf").write_text(CONFIG.format(folder=cls.folder, host=cls.host, ports=free_ports(2)))
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("BANYAN_")}
        cls.environment["SLURM_CONF"] = str(cls.folder / "slurm.conf")
        cls.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={cls.folder}/munge.socket",
                  f"--pid-file={cls.folder}/munge.pid", f"--seed-file={cls.folder}/munge.seed", "--num-threads=2")
        cls.wait(lambda: (cls.folder / "munge.socket").exists())
        cls.start("slurmctld", "-D")
        cls.start("slurmd", "-D", "-N", cls.host)
        cls.wait(lambda: cls.state() == "idle")

    @classmethod
    def start(cls, *command):
        log = open(cls.folder / f"{command[0]}.out", "w")
        process = subprocess.Popen(command, env=cls.environment, stdout=log, stderr=log)
        cls.addClassCleanup(log.close)
        cls.addClassCleanup(process.wait, PATIENCE)
        cls.addClassCleanup(process.terminate)

    @classmethod
    def wait(cls, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until:
                logs = [f"{log.name}: {log.read_text()[-1000:]}" for log in cls.folder.glob("*.[ol][uo][tg]")]
                raise AssertionError("\n".join(["Slurm is not ready", *logs]))
            time.sleep(0.1)

    @classmethod
    def ask(cls, *command, **variables):
        ended = subprocess.run(command, env={**cls.environment, **variables}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        return ended.returncode, ended.stdout

    @classmethod
    def state(cls):
        """Of the node, and why, where somebody has said so."""
        return cls.ask("sinfo", "-h", "-o", "%t %E")[1].strip().removesuffix(" none")

    def setUp(self):
        (self.folder / "bin/systemctl").unlink(missing_ok=True)
        if self.state() != "idle":
            self.ask("scontrol", "update", f"nodename={self.host}", "state=resume")
            self.wait(lambda: self.state() == "idle")

    def serve(self):
        daemon = subprocess.Popen([BANYAND, "--socket", str(self.socket)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait, PATIENCE)
        self.addCleanup(daemon.terminate)
        self.assertIn("listens at", daemon.stdout.readline())

    def systemctl(self, script):
        """In place of the program, which is none of this Slurm's."""
        file = self.folder / "bin/systemctl"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def test_no_job_begins_without_the_service_and_the_node_is_drained(self):
        code, said = self.ask("srun", "-n4", ALLREDUCE)
        self.assertNotEqual(code, 0)
        self.assertNotIn("ranks agree", said)
        self.wait(lambda: "Prolog error" in self.state())
        self.assertIn(f"there is no socket at {self.socket}", (self.folder / "slurmd.log").read_text())

    def test_ranks_of_a_step_meet_by_what_slurm_says(self):
        self.serve()
        for options in (["-n4"], ["-n1"], ["-n4", "--cpu-bind=none", "--label"]):
            code, said = self.ask("srun", *options, ALLREDUCE)
            self.assertEqual(code, 0, said)
            ranks = int(options[0].removeprefix("-n"))
            self.assertIn("4 ranks agree" if ranks == 4 else "1 rank", said)
        # Two steps of one allocation at the same time do not meet each other.
        step = f"srun -n2 --exact {ALLREDUCE}"
        code, said = self.ask("salloc", "-n4", "sh", "-c", f"{step} & {step} & wait")
        self.assertEqual((code, said.count("2 ranks agree")), (0, 2), said)
        self.wait(lambda: self.state() == "idle")

    def test_tasks_are_told_the_service_and_their_tenant(self):
        self.serve()
        for options, variables, expected in (
                ([], {}, r"BANYAN_SERVICE=unix:{0}\nBANYAN_TENANT=job-\d+"),
                (["--account=physics"], {}, r"BANYAN_SERVICE=unix:{0}\nBANYAN_TENANT=physics"),
                ([], {"BANYAN_TENANT": "mine"}, r"BANYAN_SERVICE=unix:{0}\nBANYAN_TENANT=mine"),
                ([], {"BANYAN_TRANSPORT": "tcp"}, r"BANYAN_TRANSPORT=tcp")):
            with self.subTest(options=options, variables=variables):
                code, said = self.ask("srun", "-n1", *options, "sh", "-c", "env | grep ^BANYAN_ | sort", **variables)
                self.assertEqual(code, 0, said)
                lines = "\n".join(line for line in said.splitlines() if not line.startswith("srun: "))
                self.assertRegex(lines, rf"\A{expected.format(self.socket)}\Z")

    def test_a_node_whose_service_has_failed_meanwhile_takes_no_further_job(self):
        self.serve()
        self.systemctl("exit 1")  # nothing is enabled, and nothing has failed
        self.assertEqual(self.ask("srun", "-n1", "true")[0], 0)
        self.wait(lambda: self.state() == "idle")
        self.systemctl('[ "$1 $2 $3" = "--quiet is-failed banyand.service" ]')
        self.assertEqual(self.ask("srun", "-n1", "true")[0], 0, "the job itself is not to blame")
        self.wait(lambda: "Epilog error" in self.state())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
