"""Predictions: against times worked out by hand, and against the bound."""
import json
import os
import tempfile
import unittest

import banyan


class Times(unittest.TestCase):
    def test_one_link_without_latency_takes_its_bytes_and_one_message_a_slice(self):
        plan = banyan.plan("broadcast", "full:2@1GB/s")
        prediction = banyan.predict(plan, bytes=1_000_000, slice=250_000, alpha="10us")
        # Four messages of 250 us, the cost of each before its first byte.
        self.assertAlmostEqual(prediction.time, 4 * 260e-6, delta=1e-9)
        self.assertEqual(prediction.best.messages, 4)
        self.assertEqual(prediction.best.slice, 250_000)

    def test_alpha_is_a_text_or_seconds(self):
        plan = banyan.plan("broadcast", "full:2@1GB/s")
        as_text, as_number = (banyan.predict(plan, bytes="1MB", slice="1MB", alpha=alpha).time
                              for alpha in ("10us", 10e-6))
        self.assertEqual(as_text, as_number)

    def test_large_buffers_come_near_to_the_bound_and_never_beat_it(self):
        for fabric in ("dgx-a100:2", "torus:4x4@25GB/s"):
            prediction = banyan.predict("allgather", fabric, bytes="16GiB")
            bound = float(banyan.bound("allgather", fabric).throughput)
            self.assertLessEqual(prediction.throughput, bound * (1 + 1e-9))
            self.assertGreater(prediction.throughput, 0.9 * bound)

    def test_the_best_plan_is_the_quickest(self):
        prediction = banyan.predict("allreduce", "dgx-a100:2", "64KiB")
        self.assertEqual(prediction.time, min(plan.time for plan in prediction.plans))
        self.assertEqual(prediction.plan.planner, prediction.best.plan)
        self.assertTrue(prediction.plan.verify())

    def test_folding_changes_no_time(self):
        folded, unfolded = (banyan.predict("allgather", "dgx-a100:1", "1MiB", fold=fold) for fold in (True, False))
        self.assertAlmostEqual(folded.time, unfolded.time, delta=1e-9 * folded.time)

    def test_busiest_links_are_links_of_the_fabric(self):
        prediction = banyan.predict("allgather", "a <-> sw 1GB/s; b <-> sw 2GB/s; c <-> sw 2GB/s", "1GB")
        busiest = prediction.busiest_links(2)  # a takes two thirds in, and sends its own third twice
        self.assertEqual({(link.source, link.target) for link in busiest}, {("sw", "a"), ("a", "sw")})
        for link in busiest:
            self.assertAlmostEqual(link.bytes, 2e9 / 3, delta=1)
            self.assertGreater(link.load, 0.9)


class Sweeps(unittest.TestCase):
    def test_sizes_double(self):
        sweep = banyan.sweep("allgather", "dgx-a100:1", "1KiB:16KiB")
        self.assertEqual(sweep.sizes, [2**10, 2**11, 2**12, 2**13, 2**14])
        self.assertEqual([point.bytes for point in sweep], sweep.sizes)
        self.assertEqual(len(str(sweep).splitlines()), 1 + len(sweep))

    def test_sizes_are_a_list(self):
        self.assertEqual(banyan.sweep("allgather", "dgx-a100:1", ["1KiB", 5000]).sizes, [1024, 5000])

    def test_larger_buffers_take_longer_and_are_carried_faster(self):
        sweep = banyan.sweep("allreduce", "dgx-a100:2", "1KiB:64MiB")
        times = [point.time for point in sweep]
        self.assertEqual(times, sorted(times))
        self.assertLess(sweep[0].throughput, sweep[-1].throughput)

    def test_plans_are_compared_by_name(self):
        low, fast = banyan.plan("allgather", "mi250:2", trees=1), banyan.plan("allgather", "mi250:2")
        sweep = banyan.sweep([low, fast], sizes="1KiB:2KiB")
        self.assertEqual([plan.plan for plan in sweep.plans[0]], ["forest 0", "forest 1"])


class Reports(unittest.TestCase):
    def test_files_are_written_by_their_ending(self):
        prediction = banyan.predict("allgather", "dgx-a100:1", "1MiB")
        self.assertEqual(json.loads(prediction.to_json())["banyan"], "prediction/1")
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("p.json", "{"), ("p.html", "<!")):
                path = os.path.join(folder, name)
                prediction.save(path)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(2)[:len(begin)].lower(), begin)

    def test_the_title_and_the_summary_say_what_it_is(self):
        prediction = banyan.predict("allgather", "dgx-a100:1", "1MiB")
        self.assertIn("allgather of 1 MiB on dgx-a100:1", prediction.title)
        self.assertTrue(prediction.summary)
        self.assertIn("dgx-a100:1", prediction._repr_html_())

    def test_plans_from_files_are_predicted(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            plan = banyan.plan("broadcast", "full:3@1GB/s")
            plan.save(path)
            self.assertEqual(banyan.predict(path, bytes="1MB").time, banyan.predict(plan, bytes="1MB").time)


if __name__ == "__main__":
    unittest.main()
