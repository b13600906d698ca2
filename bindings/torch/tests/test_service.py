"""Two training jobs at once through banyand give the losses that each gives alone and without it, bit for bit.

Both ranks of a job believe to be on hosts of their own, each with a daemon; so all that they exchange goes from one
daemon to the other. Two contributions are added in one order only, whoever adds them.

Environment: BANYAND_BINARY, the path of banyand.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import examples
from ranks import not_by_gloo, seed

kRanks = 2
kJobs = {"vgg": ["--layers", 1, "--width", 64], "gpt": ["--layers", 2, "--width", 32]}  # tenants and their models
kSteps = 10
kServing = 5.0  # seconds for a daemon to serve


def banyand():
    path = os.environ.get("BANYAND_BINARY") or shutil.which("banyand")
    if path is None:
        raise unittest.SkipTest("there is no banyand: neither BANYAND_BINARY nor PATH leads to it")
    return path


@not_by_gloo("has no service")
class Service(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "world").mkdir(mode=0o700)
        for rank in range(kRanks):
            self.start_daemon(rank)

    def socket_of(self, rank):
        return self.folder / f"host{rank}.sock"

    def start_daemon(self, rank):
        log = open(self.folder / f"daemon{rank}.log", "w+b")
        self.addCleanup(log.close)
        daemon = subprocess.Popen([banyand(), "--socket", str(self.socket_of(rank)), "--world",
                                   f"file://{self.folder}/world", "--crowded"], stdout=log, stderr=log,
                                  env={**os.environ, "BANYAN_HOST_ID": f"host{rank}"})
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        end = time.monotonic() + kServing
        while not self.socket_of(rank).exists():
            self.assertIsNone(daemon.poll(), (self.folder / f"daemon{rank}.log").read_text(encoding="utf-8"))
            self.assertLess(time.monotonic(), end, "a daemon does not serve")
            time.sleep(0.01)

    def train(self, tenant, transport):
        """The losses of this tenant's job: a row for each step, a number for each rank."""
        path = self.folder / f"{tenant}-{transport}.json"
        program = examples.python("train_ddp.py", "--steps", kSteps, "--batch", 1, "--seed", seed() % 1000, "--losses",
                                  path, *kJobs[tenant])
        start = f'export BANYAN_HOST_ID=host$RANK BANYAN_SERVICE=unix:{self.folder}/host$RANK.sock; exec "$@"'
        code, output = examples.run(examples.banyan(), "run", "-n", kRanks, "--", "sh", "-c", start, "sh", *program,
                                    environment={"BANYAN_TRANSPORT": transport, "BANYAN_TENANT": tenant})
        self.assertEqual(code, 0, output)
        return examples.losses_of(self, path, output)

    def calls_by_tenant(self):
        """Of host0's daemon, as operators see it."""
        code, output = examples.run(examples.banyan(), "service", "status", "--json", "--at",
                                    f"unix:{self.folder}/host0-operator.sock")
        self.assertIn(code, (0, 1), output)  # 1: something is late, at this moment
        return {each["tenant"]: max(rank["calls_over"] for rank in each["ranks"])
                for each in json.loads(output)["communicators"]}

    def test_two_jobs_at_once_have_the_losses_of_direct_runs(self):
        seen = {}
        with concurrent.futures.ThreadPoolExecutor() as threads:
            jobs = {tenant: threads.submit(self.train, tenant, "service") for tenant in kJobs}
            while not all(job.done() for job in jobs.values()):
                for tenant, calls in self.calls_by_tenant().items():
                    seen[tenant] = max(seen.get(tenant, 0), calls)
                time.sleep(0.05)
        user = os.getuid()
        self.assertEqual(set(seen), {f"{user}/{tenant}" for tenant in kJobs}, "who went through the daemons")
        self.assertGreater(min(seen.values()), 0, seen)
        for tenant, job in jobs.items():
            with self.subTest(tenant):
                direct = self.train(tenant, "tcp")
                self.assertEqual([len(direct), {len(row) for row in direct}], [kSteps, {kRanks}])
                self.assertEqual(job.result(), direct)
