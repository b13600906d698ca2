"""Jobs: what `banyan predict job` says of the same question, and mistakes in the words of Python."""
import json
import os
import subprocess
import tempfile
import unittest

import banyan

PAIR = "num_ranks 2\nrank 0 {\n send 1000000b to 1\n}\nrank 1 {\n recv 1000000b from 0\n}\n"
# Both ranks send before they receive.
CROSSED = "num_ranks 2\n" + "".join(
    f"rank {rank} {{\n s: send 1048576b to {1 - rank}\n r: recv 1048576b from {1 - rank}\n r requires s\n}}\n"
    for rank in range(2))


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path


class LikeTheCommandLine(Files):
    """The same question asked of both has the same answer, to the last byte."""

    def expect_same(self, words, job):
        program = os.environ.get("BANYAN_PROGRAM")
        if program is None:
            self.skipTest("BANYAN_PROGRAM names no program to compare with")
        told = subprocess.run([program, "predict", "job", *words, "--json"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(job.to_json(spans=False), told.stdout)

    def test_goal(self):
        path = self.write("pair.goal", PAIR)
        self.expect_same([path, "--fabric", "star:2@1GB/s", "--what-if"],
                         banyan.predict_job(path, "star:2@1GB/s", what_if=True))

    def test_kineto(self):
        files = [self.write(f"rank{rank}.json", {"traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10.0 + rank, "dur": 250.0,
             "args": {"stream": 7}}]}) for rank in range(2)]
        self.expect_same(["--kineto", ",".join(files), "--fabric", "star:2@10GB/s"],
                         banyan.predict_job(None, "star:2@10GB/s", kineto=files))

    def chakra(self):
        node = {"id": 1, "name": "gemm", "type": "COMP_NODE", "attr": [
            {"name": "num_ops", "uint64Val": "3000000000"}, {"name": "is_cpu_op", "boolVal": False}]}
        self.write("run.0.json", json.dumps({"version": "0.0.4"}) + "\n" + json.dumps(node) + "\n")
        return os.path.join(self.folder, "run")

    def test_chakra_with_rates_as_numbers(self):
        prefix = self.chakra()
        job = banyan.predict_job(None, "star:2@10GB/s", chakra=prefix, flops=3e12)
        self.expect_same(["--chakra", prefix, "--flops", "3e12", "--fabric", "star:2@10GB/s"], job)
        self.assertEqual(job.time, 1e-3)

    def test_several_jobs_at_once(self):
        train = {"layers": 2, "hidden": 512, "dp": 2, "global-batch": 2}
        goal = self.write("pair.goal", PAIR)
        path = self.write("jobs.json", {"banyan": "jobs/1", "jobs": [
            {"name": "one", "tenant": "a", "train": train, "placement": "round-robin"},
            {"goal": goal, "start": "1ms"}]})
        job = banyan.predict_job(None, "dgx-a100:2", jobs=path, events=["1ms gpu0-ib0=1GB/s"], on_failure="move",
                                 eager=1024, window=1e-6, algorithm="forest", placement="random", seed=7, fold=False)
        self.expect_same(["--jobs", path, "--fabric", "dgx-a100:2", "--event", "1ms gpu0-ib0=1GB/s", "--on-failure",
                          "move", "--eager", "1KiB", "--window", "1us", "--algorithm", "forest", "--placement",
                          "random", "--seed", "7", "--unfolded"], job)
        self.assertEqual([(each.name, each.tenant) for each in job.jobs], [("one", "a"), (goal, "")])
        self.assertEqual(job.jobs[1].begin, 1e-3)
        self.assertGreater(job.jobs[1].alone, 0)
        self.assertEqual(len(job.ranks), 4)

    def test_a_device_for_links(self):
        path = self.write("pair.goal", PAIR)
        self.expect_same([path, "--fabric", "star:2@1GB/s", "--gpu", "h100"],
                         banyan.predict_job(path, "star:2@1GB/s", gpu="h100"))


class Figures(Files):
    def setUp(self):
        super().setUp()
        self.path = self.write("pair.goal", PAIR)
        self.job = banyan.predict_job(self.path, "star:2@1GB/s")

    def test_a_message_takes_its_bytes_and_its_cost(self):
        self.assertAlmostEqual(self.job.time, 1e-3 + 5e-6)
        parts = self.job.compute + self.job.exposed + self.job.waiting + self.job.host + self.job.bubble
        self.assertAlmostEqual(parts, self.job.time)
        self.assertEqual([rank.rank for rank in self.job.ranks], ["gpu0", "gpu1"])
        self.assertEqual((self.job.jobs[0].alone, self.job.what_if, self.job.notes), (None, [], []))

    def test_it_says_what_it_is(self):
        self.assertEqual(self.job.title, f"{self.path} on star:2@1GB/s")
        self.assertEqual(repr(self.job), f"<banyan.JobPrediction {self.path} on star:2@1GB/s: 1.01 ms>")
        self.assertIn(self.job.summary, str(self.job))
        self.assertEqual(self.job.busiest_links(1)[0].source, "gpu0")

    def test_files_are_written_by_their_ending(self):
        for name, begin in (("j.json", "{"), ("j.html", "<!"), ("j.trace", '{"')):
            path = os.path.join(self.folder, name)
            self.job.save(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(2)[:len(begin)].lower(), begin)


class Mistakes(Files):
    def expect(self, code, text, *arguments, **options):
        with self.assertRaises(banyan.Error) as caught:
            banyan.predict_job(*arguments, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("--", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_they_name_the_argument_and_the_mend(self):
        path, fabric = self.write("pair.goal", PAIR), "star:2@1GB/s"
        self.expect("invalid_input", "give one of TRACE.goal, chakra, kineto and jobs", None, fabric)
        self.expect("invalid_input", "give one of TRACE.goal", path, fabric, chakra="run")
        self.expect("not_found", "/nowhere.goal", "/nowhere.goal", fabric)
        self.expect("invalid_input", "devices: says nothing without gpu", path, fabric, devices="more.json")
        self.expect("invalid_input", "has no option 'chakar' (did you mean 'chakra'?)", None, fabric, chakar="x")
        self.expect("invalid_input", "has no option 'xyz'; list_job_options()", None, fabric, xyz="x")
        self.expect("invalid_input", "flops: '312T' is no rate", None, fabric, chakra="run", flops="312T")
        self.expect("invalid_input", "dimensions: '0' is not a whole number", None, fabric, chakra="x", dimensions=[0])
        self.expect("invalid_input", "kineto: 3 is not a list", None, fabric, kineto=3)
        self.expect("invalid_input", "host: 1 files, but kineto has 2", None, fabric, kineto=["a", "b"], host=["c"])
        self.expect("invalid_input", "window: -1.0 is no time", path, fabric, window=-1.0)
        self.expect("invalid_input", "seed: '-1' is not a whole number", path, fabric, seed=-1)
        self.expect("invalid_input", "what_if: 1 is not True or False", path, fabric, what_if=1)

    def test_a_job_that_hangs_is_refused_unless_nobody_checks(self):
        path = self.write("crossed.goal", CROSSED)
        self.expect("invalid_input", "eager SIZE lets larger ones go", path, "star:2@1GB/s")
        self.assertGreater(banyan.predict_job(path, "star:2@1GB/s", eager="1MiB").time, 1e-3)
        self.assertGreater(banyan.predict_job(path, "star:2@1GB/s", eager=1 << 20, check=False).time, 1e-3)

    def test_every_option_of_the_command_line_is_one_here(self):
        for option in banyan.list_job_options():
            with self.subTest(option.name):
                with self.assertRaises(banyan.Error) as caught:
                    banyan.predict_job(None, "star:2@1GB/s", **{option.name: {} if option.value else "no truth"})
                self.assertIn(caught.exception.where, (option.name, ""))


if __name__ == "__main__":
    unittest.main()
