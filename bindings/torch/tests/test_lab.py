"""Training in an emulated cluster (docs/lab.md) gives the losses that it gives without one.

What must hold bit for bit, and what to rounding: between hosts a plan says who adds what, and in which order, and it
follows from the fabric, the collective and the size. So whoever plans for the same fabric has the same bits, whatever
carries the bytes: the lab's links, or TCP on one host. In shared memory contributions are added in the order of the
ranks; from three ranks on that may round otherwise.
"""

import os
import pathlib
import tempfile
import unittest

import examples
from ranks import not_by_gloo, seed

kFabric = "a0 <-> swa 400Mb/s; a1 <-> swa 400Mb/s; b0 <-> swb 400Mb/s; b1 <-> swb 400Mb/s; swa <-> swb 200Mb/s"
kRanks = 4
kTolerance = 1e-5  # of a loss, in the first ten steps: training makes more of other roundings later


@not_by_gloo("plans nothing")
class Lab(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.name = pathlib.Path(folder.name), f"torch-test-{os.getpid()}"
        banyan = examples.banyan()
        self.addCleanup(examples.run, banyan, "lab", "down", "--name", self.name)
        code, output = examples.run(banyan, "lab", "up", "--name", self.name, kFabric)
        if code == 2:
            self.skipTest(output.strip())
        self.assertEqual(code, 0, output)

    def train(self, name, *start, **environment):
        """(losses, plans of allreduces) of ten steps, started by these words of the command line."""
        path = self.folder / name
        program = examples.python("train_ddp.py", "--steps", 10, "--layers", 1, "--width", 64, "--batch", 1,
                                  "--seed", seed() % 1000, "--losses", path)
        code, output = examples.run(examples.banyan(), *start, "--", *program,
                                    environment={"BANYAN_LOG": "debug", **environment})
        self.assertEqual(code, 0, output)
        losses = examples.losses_of(self, path, output)
        self.assertEqual([len(losses), {len(row) for row in losses}], [10, {kRanks}])
        return losses, examples.plans_of(output)

    def scaled_fabric(self):
        code, output = examples.run(examples.banyan(), "lab", "run", "--name", self.name, "--no-prefix", "--rank", 0,
                                    "--", "printenv", "BANYAN_FABRIC")
        self.assertEqual(code, 0, output)
        return output.strip()

    def test_losses_are_those_of_a_run_without_it(self):
        in_lab, plans = self.train("lab", "lab", "run", "--name", self.name, "--no-prefix")
        self.assertTrue(plans, "no plan was followed in the lab")
        self.assertIn("forest", " ".join(plans))

        by_same_plan, same_plans = self.train("tcp", "run", "-n", kRanks, BANYAN_TRANSPORT="tcp",
                                              BANYAN_FABRIC=self.scaled_fabric())
        self.assertEqual(same_plans, plans)
        self.assertEqual(by_same_plan, in_lab)

        on_host, no_plans = self.train("host", "run", "-n", kRanks)
        self.assertEqual(no_plans, [])
        apart = max(abs(one - other) / abs(one) for row, row2 in zip(in_lab, on_host, strict=True)
                    for one, other in zip(row, row2, strict=True))
        self.assertLessEqual(apart, kTolerance)
