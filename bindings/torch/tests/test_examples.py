"""The programs of examples/torch do what they say. Over Gloo, too, where that is the backend under test."""

import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile
import unittest
import unittest.mock

import torch

import examples
from ranks import free_port, not_by_gloo, seed


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def succeed(self, *command):
        """The output of a command that must end with 0."""
        code, output = examples.run(*command)
        self.assertEqual(code, 0, output)
        return output

    def by_banyan_run(self, program, *arguments):
        return self.succeed(examples.banyan(), "run", "-n", 2, "--", *examples.python(program, *arguments))


class DdpTest(ExampleTest):
    """train_ddp.py on two ranks, with a small model."""

    def training(self, steps, name, *more):
        return ["--steps", steps, "--layers", 1, "--width", 64, "--seed", seed() % 1000, "--losses",
                os.path.join(self.folder, name), *more]

    def losses(self, name, output):
        return examples.losses_of(self, os.path.join(self.folder, name), output)

    def expect_equal_losses_after_a_death(self, *more):
        """Bit for bit. Redirects of a rank that does not exist: torch 1.13 cannot parse "none" under Python 3.11."""
        wanted = self.losses("whole", self.by_banyan_run("train_ddp.py", *self.training(40, "whole", *more)))
        with free_port() as port:
            output = self.succeed(
                sys.executable, "-m", "banyan_torch.run", "-r", "9:1", "-t", "9:1", "--nproc_per_node", 2,
                "--max_restarts=1", "--monitor_interval=0.2", f"--master_port={port}", "--log_dir", self.folder,
                *examples.python("train_ddp.py", *self.training(40, "restarted", "--die-at", 30, "--checkpoint",
                                                                os.path.join(self.folder, "model.pt"), *more))[1:])
        self.assertIn("rank 0 goes on at step 20", output)
        self.assertIn("rank 1 goes on at step 20", output)
        self.assertEqual(self.losses("restarted", output), wanted)


class Ddp(DdpTest):
    def test_the_loss_falls(self):
        output = self.by_banyan_run("train_ddp.py", *self.training(20, "losses"))
        losses = self.losses("losses", output)
        self.assertEqual([len(losses), {len(row) for row in losses}], [20, {2}])
        first, last = (statistics.fmean(map(statistics.fmean, rows)) for rows in (losses[:3], losses[-3:]))
        self.assertLess(last, 0.9 * first)
        self.assertIn("step 20: loss", output)
        self.assertIn("exposed communication:", output)

    def test_a_job_whose_worker_was_killed_goes_on_with_the_same_losses(self):
        self.expect_equal_losses_after_a_death()


@not_by_gloo("has no codes")
class DdpInCodes(DdpTest):
    def test_gradients_in_a_code_teach_the_same(self):
        means = []
        for more in ([], ["--compress", "int8"]):
            with unittest.mock.patch.dict(os.environ, BANYAN_TRANSPORT="tcp"):
                output = self.by_banyan_run("train_ddp.py", *self.training(20, "losses", *more))
            rows = self.losses("losses", output)
            means.append([statistics.fmean(row) for row in rows])
        self.assertNotEqual(means[0], means[1], "nothing was coded")
        self.assertLess(abs(statistics.fmean(means[1][-3:]) / statistics.fmean(means[0][-3:]) - 1), 0.01)

    def test_a_job_whose_worker_was_killed_goes_on_with_the_same_losses(self):
        with unittest.mock.patch.dict(os.environ, BANYAN_TRANSPORT="tcp"):
            for codec in ("int4", "powersgd:2"):
                with self.subTest(codec):
                    self.expect_equal_losses_after_a_death("--compress", codec)
                    pathlib.Path(self.folder, "model.pt").unlink()

    def test_a_checkpoint_of_another_compression_is_refused(self):
        checkpoint = os.path.join(self.folder, "model.pt")
        with unittest.mock.patch.dict(os.environ, BANYAN_TRANSPORT="tcp"):
            self.by_banyan_run("train_ddp.py", *self.training(20, "losses", "--checkpoint", checkpoint))
            code, output = examples.run(examples.banyan(), "run", "-n", 2, "--", *examples.python(
                "train_ddp.py", *self.training(40, "losses", "--checkpoint", checkpoint, "--compress", "int8")))
        self.assertEqual(code, 1, output)
        self.assertIn("model.pt has the compression of 0 ranks instead of 2: go on with as many ranks as", output)


class GoOn(ExampleTest):
    """go_on.py: whichever rank dies, the others train on with equal parameters."""

    def test_the_others_go_on_in_the_same_processes(self):
        for victim in (0, 2):
            code, output = examples.run(examples.banyan(), "run", "-n", 3, "--keep-going", "--",
                                        *examples.python("go_on.py", "--die", f"{victim}:10", "--steps", 20))
            self.assertEqual(code, 128 + signal.SIGKILL, output)  # that of the rank that was killed
            for new, rank in enumerate(rank for rank in range(3) if rank != victim):
                self.assertRegex(output, rf"rank {rank} is rank {new} of 2 now, and goes on at step (9|10|11) without "
                                         rf"ranks \[{victim}\]")
            self.assertIn("20 steps; 2 ranks have equal parameters", output)


class LocalSteps(ExampleTest):
    """local_steps.py: whichever rank dies, the others end with what a plain program of theirs ends with."""

    kSteps, kEvery = 60, 10

    def run_without(self, victim, died, *more):
        code, output = examples.run(examples.banyan(), "run", "-n", 3, "--keep-going", "--", *examples.python(
            "local_steps.py", "--die", f"{victim}:{died}", "--steps", self.kSteps, "--every", self.kEvery, *more))
        self.assertEqual(code, 128 + signal.SIGKILL, output)  # that of the rank that was killed
        for new, rank in enumerate(rank for rank in range(3) if rank != victim):
            self.assertRegex(output, rf"rank {rank} is rank {new} of 2 now, and goes on at step \d+ without ranks "
                                     rf"\[{victim}\]")
        found = re.search(rf"{self.kSteps} steps; 2 ranks have equal parameters, whose loss is ([0-9.]+)", output)
        self.assertIsNotNone(found, output)
        return float(found.group(1))

    def expected(self, victim, died):
        """The loss of ranks that are trained one after the other. What would have been exchanged at the step in which
        that failed is exchanged one step later."""
        sys.path.insert(0, str(examples.kExamples))
        self.addCleanup(sys.path.remove, str(examples.kExamples))
        import local_steps

        models = {rank: local_steps.make_model() for rank in range(3)}
        optimizers = {rank: local_steps.make_optimizer(model) for rank, model in models.items()}
        vector = lambda model: torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()  # noqa: E731
        last, momentum, step, failed = vector(models[0]), 0, 0, (died // self.kEvery + 1) * self.kEvery
        while step < self.kSteps:
            step += 1
            for rank, model in models.items():
                if rank == victim and step > died:
                    continue
                optimizers[rank].zero_grad()
                local_steps.loss_of(model, rank, step - 1).backward()
                optimizers[rank].step()
            if step == failed and victim in models:
                del models[victim]
                step -= 1  # which is made once more
            elif step % self.kEvery == 0:
                change = sum(last - vector(model) for model in models.values()) / len(models)
                momentum = 0.9 * momentum + change
                last = last - 0.7 * (change + 0.9 * momentum)
                for model in models.values():
                    torch.nn.utils.vector_to_parameters(last.clone(), model.parameters())
        with torch.no_grad():
            return local_steps.loss_of(models[min(models)], -1, 0).item()

    def test_the_others_go_on_with_what_they_had(self):
        for victim, died in ((0, 25), (2, 30)):
            self.assertAlmostEqual(self.run_without(victim, died), self.expected(victim, died), delta=1e-4)

    def test_in_a_code_between_hosts(self):
        with unittest.mock.patch.dict(os.environ, BANYAN_TRANSPORT="tcp"):
            loss = self.run_without(1, 25, "--codec", "int8")
        self.assertLess(abs(loss / self.expected(1, 25) - 1), 0.05)


class Moe(ExampleTest):
    def test_experts_on_two_ranks_learn_what_those_on_one_do(self):
        output = self.by_banyan_run("moe_all_to_all.py", "--check", "--steps", 40, "--seed", seed() % 1000)
        self.assertIn("equal to all experts on one rank", output)
        self.assertRegex(output, r"brought [1-9]\d* tokens and gradients to rank 0")


class ExchangeTime(unittest.TestCase):
    """What describe_seconds says of two medians."""

    def setUp(self):
        sys.path.insert(0, str(examples.kExamples))
        self.addCleanup(sys.path.remove, str(examples.kExamples))

    def test_a_share_below_zero_is_not_measurable(self):
        from exchange_time import describe_seconds
        self.assertIn("exposed communication: not measurable", describe_seconds(synced=0.100, alone=0.115))
        self.assertIn("exposed communication: 20.0% of a step", describe_seconds(synced=0.100, alone=0.080))
