"""Training steps: what `banyan predict train` says of the same question, and mistakes in the words of Python."""
import json
import os
import subprocess
import tempfile
import unittest

import banyan

SMALL = {"layers": 4, "hidden": 1024, "tp": 2, "pp": 2, "dp": 2, "global_batch": 16}


class LikeTheCommandLine(unittest.TestCase):
    """The same question asked of both has the same answer, to the last byte."""

    def told(self, *words):
        program = os.environ.get("BANYAN_PROGRAM")
        if program is None:
            self.skipTest("BANYAN_PROGRAM names no program to compare with")
        told = subprocess.run([program, "predict", *words, "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        return told.stdout

    def expect_same(self, words, step):
        self.assertEqual(step.to_json(spans=False), self.told("train", *words.split()))

    def test_a_named_model(self):
        self.expect_same("--model gpt3-13b --fabric dgx-a100:8 --tp 8 --dp 8 --global-batch 64",
                         banyan.predict_step("gpt3-13b", "dgx-a100:8", tp=8, dp=8, global_batch=64))

    def test_a_model_of_free_shape_and_what_would_help(self):
        self.expect_same("--layers 4 --hidden 1024 --tp 2 --pp 2 --dp 2 --global-batch 16 --fabric dgx-a100:1 "
                         "--what-if", banyan.predict_step(None, "dgx-a100:1", **SMALL, what_if=True))

    def test_flags_sizes_and_choices(self):
        self.expect_same(
            "--layers 4 --hidden 1024 --tp 2 --dp 4 --gpu h100 --global-batch 16 --fabric dgx-h100:1 --zero 2 "
            "--unfused-attention --sequence-parallel --gradients-fp32 --bucket 1MiB --overlap-gradients "
            "--no-scatter-gather --recompute selective --precision bf16 --pad-vocab 1 --eager 1KiB --window 1us",
            banyan.predict_step(None, "dgx-h100:1", layers=4, hidden=1024, tp=2, dp=4, gpu="h100", global_batch=16,
                                zero=2, fused_attention=False, sequence_parallel=True, gradients_fp32=True,
                                bucket=1 << 20, overlap_gradients=True, scatter_gather=False, recompute="selective",
                                precision="bf16", pad_vocab=1, eager="1KiB", window=1e-6))

    def test_gradients_in_a_code(self):
        words = ("--model gpt3-1.3b --gpu a100-80g --fabric star:4@1Gb/s --dp 4 --global-batch 4 --compress int8 "
                 "--codec-speed 20GB/s")
        step = banyan.predict_step("gpt3-1.3b", "star:4@1Gb/s", gpu="a100-80g", dp=4, global_batch=4, compress="int8",
                                   codec_speed="20GB/s")
        self.expect_same(words, step)

    def test_every_option_of_the_command_line_is_one_here(self):
        options = banyan.list_train_options()
        self.assertEqual(options[0].name, "model")  # which is the first argument
        for option in options[1:]:
            with self.subTest(option.name):
                with self.assertRaises(banyan.Error) as caught:
                    banyan.predict_step(None, "dgx-a100:1", **{option.name: ["no value of any option"]})
                self.assertEqual(caught.exception.where, option.name)

    def test_places_plans_and_messages(self):
        self.expect_same(
            "--layers 4 --hidden 512 --dp 8 --global-batch 8 --fabric dgx-a100:2 --placement random --seed 7 "
            "--algorithm forest --collectives messages --unfolded",
            banyan.predict_step(None, "dgx-a100:2", layers=4, hidden=512, dp=8, global_batch=8, placement="random",
                                seed=7, algorithm="forest", collectives="messages", fold=False))

    def test_links_that_change(self):
        self.expect_same_events(events=["1ms gpu0-ib0=1GB/s", "50ms gpu1-ib0 fail"], on_failure="move")

    def expect_same_events(self, events, on_failure):
        told = self.told("train", "--layers", "4", "--hidden", "512", "--dp", "16", "--global-batch", "16", "--fabric",
                         "dgx-a100:2", *(word for event in events for word in ("--event", event)), "--on-failure",
                         on_failure)
        step = banyan.predict_step(None, "dgx-a100:2", layers=4, hidden=512, dp=16, global_batch=16, events=events,
                                   on_failure=on_failure)
        self.assertEqual(step.to_json(spans=False), told)
        self.assertEqual(step.alone, json.loads(told)["jobs"][0]["alone_ps"] / 1e12)
        self.assertGreater(step.time, step.alone)

    def test_a_step_that_does_not_fit_but_is_wanted(self):
        step = banyan.predict_step("gpt3-175b", "dgx-a100:1", tp=8, ignore_memory=True)
        self.expect_same("--model gpt3-175b --tp 8 --fabric dgx-a100:1 --ignore-memory", step)
        self.assertFalse(step.fits)
        self.assertGreater(step.memory[0].total, step.memory_available)

    def test_a_file_of_jobs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "jobs.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"banyan": "jobs/1", "jobs": [{
                    "name": "one", "train": {"layers": 4, "hidden": 512, "dp": 4, "global-batch": 8},
                    "ranks": ["gpu9", "gpu1", "gpu12", "gpu3"]}]}, file)
            step = banyan.predict_step(path, "dgx-a100:2")
            told = json.loads(self.told("job", "--jobs", path, "--fabric", "dgx-a100:2"))
        self.assertEqual(step.time, told["time_ps"] / 1e12)
        self.assertEqual([rank.rank for rank in step.ranks], ["gpu9", "gpu1", "gpu12", "gpu3"])
        self.assertEqual([rank.compute for rank in step.ranks],
                         [rank["compute_ps"] / 1e12 for rank in told["ranks"]])

    def test_a_start_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "jobs.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"banyan": "jobs/1", "jobs": [{"start": "1ms", "train": {"layers": 4, "hidden": 512}}]}, file)
            with self.assertRaisesRegex(banyan.Error, "has a step with a start"):
                banyan.predict_step(path, "dgx-a100:2")


class Figures(unittest.TestCase):
    def setUp(self):
        self.step = banyan.predict_step(None, "dgx-a100:1", **SMALL)
        self.file = json.loads(self.step.to_json())

    def test_parts_add_up_to_the_time(self):
        step = self.step
        self.assertEqual(step.time, self.file["time_ps"] / 1e12)
        self.assertAlmostEqual(step.compute + step.exposed + step.waiting + step.host + step.bubble, step.time)
        self.assertEqual(len(step.ranks), 8)
        for part in ("compute", "exposed", "waiting", "host", "bubble"):
            mean = sum(getattr(rank, part) for rank in step.ranks) / 8
            self.assertAlmostEqual(getattr(step, part), mean, msg=part)
            self.assertAlmostEqual(mean, sum(rank[f"{part}_ps"] for rank in self.file["ranks"]) / 8e12, msg=part)

    def test_memory_is_that_of_the_report(self):
        memory = self.file["training"]["memory"]
        self.assertEqual(len(self.step.memory), 2)
        for stage, told in zip(self.step.memory, memory["stages"]):
            self.assertEqual(list(stage), [told[f"{part}_bytes"] for part in stage._fields])
            self.assertEqual(stage.total, sum(stage))
        self.assertEqual((self.step.fits, self.step.memory_available), (True, memory["available_bytes"]))

    def test_rates_are_of_the_models_flops(self):
        step = self.step
        self.assertEqual(step.model_flop, self.file["training"]["model_flop"])
        self.assertAlmostEqual(step.flops_per_device * step.time * 8 / step.model_flop, 1)
        self.assertAlmostEqual(step.utilisation * 312e12 / step.flops_per_device, 1)  # the peak of an A100
        self.assertAlmostEqual(step.tokens_per_second * step.time, 16 * 2048)
        self.assertTrue(0 < step.launches < 1)

    def test_a_code_of_gradients_is_seen(self):
        self.assertIsNone(self.step.compression)
        options = {"model": "gpt3-1.3b", "dp": 4, "global-batch": 4}
        dense = banyan.predict_step(options, "star:4@1Gb/s")
        coded = banyan.predict_step(options, "star:4@1Gb/s", compress="int8")
        found = coded.compression
        self.assertEqual((found.choice, found.tried[0].name), ("int8", "none"))
        times = {each.name: each.time for each in found.tried}
        self.assertEqual((times["none"], times["int8"]), (dense.time, coded.time))
        self.assertLess(coded.time, 0.6 * dense.time)
        self.assertEqual({bucket.code for bucket in found.buckets}, {"int8"})
        gradients = 2 * sum(stage.gradients / 2 for stage in coded.memory)  # of bfloat16
        self.assertAlmostEqual(sum(bucket.bytes for bucket in found.buckets) / gradients, 1, places=2)
        for bucket in found.buckets:
            self.assertEqual((bucket.ranks, bucket.stage, bucket.between_boxes), (4, 0, False))
            self.assertLess(bucket.coded_seconds, bucket.dense_seconds)
            self.assertAlmostEqual(bucket.wire_bytes / bucket.bytes, 65 / 256 * 2, places=2)
        self.assertTrue(coded.training.endswith(", gradients as int8"), coded.training)
        self.assertIn(", gradients as int8>", repr(coded))
        self.assertNotIn("gradients as", dense.training + repr(dense))

    def test_busiest_links_are_links_of_the_fabric(self):
        links = {(link.source, link.target) for link in banyan.Fabric("dgx-a100:1").links}
        busiest = self.step.busiest_links(3)
        self.assertEqual(len(busiest), 3)
        self.assertTrue({(link.source, link.target) for link in busiest} <= links)

    def test_what_would_help_is_asked_on_request(self):
        self.assertEqual(self.step.what_if, [])
        asked = banyan.predict_step(None, "dgx-a100:1", **SMALL, what_if=True)
        self.assertEqual([[row.resource, row.gain] for row in asked.what_if],
                         [[row["resource"], row["gain"]] for row in json.loads(asked.to_json())["what_if"]])

    def test_it_cannot_be_changed(self):
        for name in ("time", "memory", "fits"):
            with self.assertRaises(AttributeError):
                setattr(self.step, name, 0)

    def test_arguments_win_over_a_dict(self):
        options = {"layers": 4, "hidden": 1024, "tp": 1, "pp": 2, "dp": 2, "global-batch": 16}
        self.assertEqual(banyan.predict_step(options, "dgx-a100:1", tp=2).to_json(), self.step.to_json())

    def test_files_are_written_by_their_ending(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("s.json", '{'), ("s.html", "<!"), ("s.trace", '{"')):
                path = os.path.join(folder, name)
                self.step.save(path)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(2)[:len(begin)].lower(), begin)
            with open(os.path.join(folder, "s.trace"), encoding="utf-8") as file:
                self.assertTrue(json.load(file))
        self.assertTrue(self.file["spans"]["rank"])
        self.assertFalse(json.loads(self.step.to_json(spans=False))["spans"]["rank"])

    def test_it_says_what_it_is(self):
        self.assertIn("8 ranks: tp 2, pp 2, dp 2", self.step.training)
        self.assertIn("It takes ", self.step.summary)
        self.assertIn("on dgx-a100:1", str(self.step))
        self.assertRegex(repr(self.step), r"^<banyan.StepPrediction .* ms, [0-9.]+ % of the peak>$")


class Mistakes(unittest.TestCase):
    def expect(self, code, text, *arguments, **options):
        with self.assertRaises(banyan.Error) as caught:
            banyan.predict_step(*arguments, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("--", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_they_name_the_argument_and_the_mend(self):
        fabric = "dgx-a100:1"
        self.expect("not_found", "did you mean 'gpt3-13b'", "gpt3-13", fabric)
        self.expect("invalid_input", "give its layers and hidden", None, fabric)
        self.expect("invalid_input", "tp: '0' is not a whole number", "gpt3-13b", fabric, tp=0)
        self.expect("invalid_input", "global_batch: '-8' is", "gpt3-13b", fabric, global_batch=-8)
        self.expect("not_found", "gpu: ", "gpt3-13b", fabric, gpu="a10")
        self.expect("invalid_input", "interleave needs pp", None, fabric, layers=4, hidden=512, interleave=2)
        self.expect("invalid_input", "events 'soon': ", None, fabric, layers=4, hidden=512, events=["soon"])
        self.expect("invalid_input", "on_failure: ", None, fabric, layers=4, hidden=512, on_failure="weep")
        self.expect("invalid_input", "seed: ", None, fabric, layers=4, hidden=512, placement="random", seed=-1)
        self.expect("invalid_input", "take a larger fabric", None, fabric, layers=4, hidden=512, dp=64)
        self.expect("not_found", "/nowhere.json", "/nowhere.json", fabric)
        self.expect("invalid_input", "did you mean 'model'", {"modle": "gpt3-13b"}, fabric)
        self.expect("invalid_input", "tp: [8] is not a whole number", {"model": "gpt3-13b", "tp": [8]}, fabric)
        self.expect("invalid_input", "ignore_memory: 1 is not True or False",
                    {"model": "gpt3-13b", "ignore-memory": 1}, fabric)
        self.expect("invalid_input", "has no option 'compres' (did you mean 'compress'?)", "gpt3-13b", fabric,
                    compres="int8")
        self.expect("invalid_input", "has no option 'windwo' (did you mean 'window'?)", "gpt3-13b", fabric, windwo=1)
        self.expect("invalid_input", "has no option 'xyz'; list_train_options()", "gpt3-13b", fabric, xyz=1)

    def test_truth_values_are_true_or_false_and_nothing_else(self):
        small = {"layers": 4, "hidden": 512}
        for wrong in ("no", [], 0, 1, "false"):
            for name in ("scatter_gather", "fused_attention", "ignore_memory", "overlap_gradients", "fold", "what_if"):
                self.expect("invalid_input", f"{name}: {wrong!r} is not True or False", None, "dgx-a100:1", **small,
                            **{name: wrong})

    def test_numbers_are_told_as_they_were_given(self):
        small = {"layers": 4, "hidden": 512}
        for name, wrong, words in (("window", -1.0, "-1.0 is no time from 0 to 1000 s"),
                                   ("window", float("nan"), "nan is no time"), ("window", 1e300, "1e+300 is no time"),
                                   ("eager", -5, "-5 is no size"), ("eager", 1.5, "1.5 is not a whole number"),
                                   ("tp", True, "True is not a whole number"), ("tp", 1.5, "1.5 is not a whole"),
                                   ("dp", -8, "'-8' is not a whole number")):
            self.expect("invalid_input", f"{name}: {words}", None, "dgx-a100:1", **small, **{name: wrong})
        told = [banyan.predict_step(None, "dgx-a100:1", **small, dp=many).time for many in (8, 8.0)]
        self.assertEqual(told[0], told[1])

    def test_a_fabric_that_is_too_small_is_said_before_memory(self):
        self.expect("invalid_input", "take a larger fabric", "gpt3-175b", "dgx-h100:1", tp=8, dp=8, pp=2,
                    global_batch=64)

    def test_a_step_that_does_not_fit_is_refused_with_what_would(self):
        self.expect("unsupported", "it fits with ", "gpt3-175b", "dgx-a100:64", tp=8, pp=8, dp=8, global_batch=1536,
                    fused_attention=False)

    def test_a_file_of_several_jobs_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "jobs.json")
            with open(path, "w", encoding="utf-8") as file:
                job = {"train": {"layers": 4, "hidden": 512}}
                json.dump({"banyan": "jobs/1", "jobs": [job, job]}, file)
            self.expect("invalid_input", "jobs.json", path, "dgx-a100:1")


if __name__ == "__main__":
    unittest.main()
