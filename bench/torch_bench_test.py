"""What the benchmarks of the PyTorch backend check and conclude, over Gloo. Left out where there is no PyTorch.

Run: python3 -m unittest torch_bench_test
"""

import argparse
import json
import math
import os
import pathlib
import signal
import time
import unittest
import unittest.mock

import contest

try:
    import torch.distributed as dist
except ImportError:
    dist = None
else:
    import torch_bench
    import torch_common
    import torch_ddp_bench
    import torch_lab
    import torch_lab_rank

QUICK = {"rounds": 2, "min_seconds": 0.001, "timeout": 60}


def setUpModule():
    if dist is None:
        raise unittest.SkipTest("there is no PyTorch here")


def results_of(microseconds, collective="allreduce", size=4 << 20, ranks=2):
    results = contest.Results()
    for series, time_of_call in microseconds.items():
        results.add(contest.Key(ranks, collective, size), series, time_of_call, wrong=0)
    return results, contest.Key(ranks, collective, size)


# What processes of their own run stands at the top, so that they find it.


def wrong_elements_of_calls_that_do_nothing(groups, all_series, _arguments):
    """{collective: wrong elements of this rank after a call that never happened}."""
    found = {}
    for name, make in torch_bench.COLLECTIVES.items():
        case = make(groups[all_series[0]], dist.get_rank(), dist.get_world_size(), 64)
        case.fill()
        found[name] = case.wrong()
    return found


def fail_at_rank_1(_groups, _series, _arguments):
    if dist.get_rank() == 1:
        raise ValueError("rank 1 had enough")


def hang(_groups, _series, _arguments):
    time.sleep(600)


def die(_groups, _series, _arguments):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def run(worker, ranks=2, **more):
    return torch_common.run_ranks(worker, ["gloo"], ranks, argparse.Namespace(**{**QUICK, **more}))


class Ranks(unittest.TestCase):
    def test_an_error_of_a_rank_is_raised(self):
        with self.assertRaisesRegex(Exception, "rank 1 had enough"):
            run(fail_at_rank_1)

    def test_a_rank_that_hangs_is_ended(self):
        began = time.monotonic()
        with self.assertRaisesRegex(TimeoutError, "2 ranks took longer than 4 s"):
            run(hang, timeout=4)
        self.assertLess(time.monotonic() - began, 30)

    def test_a_rank_that_was_killed_ends_all(self):
        with self.assertRaisesRegex(Exception, "SIGKILL"):
            run(die)


class Checks(unittest.TestCase):
    def test_what_never_came_counts_as_wrong(self):
        found = run(wrong_elements_of_calls_that_do_nothing, ranks=3)
        self.assertEqual(found.pop("barrier"), 0)
        self.assertEqual(found.pop("broadcast"), 0)  # of rank 0, which is the root
        for collective, wrong in found.items():
            self.assertGreater(wrong, 0, collective)

    def test_gloo_is_right_and_refuses_what_it_cannot(self):
        rows = run(torch_bench.worker, ranks=3, collectives=list(torch_bench.COLLECTIVES), sizes=[48, 30_000])
        self.assertEqual(len(rows), 2 * len(torch_bench.COLLECTIVES) - 1)
        for collective, size, (record,) in rows:
            if collective in ("allgather-tensor", "reduce-scatter", "reduce-scatter-tensor"):
                self.assertIn("support", record["refused"])
            else:
                self.assertEqual((record["wrong"], len(record["microseconds"])), (0, 2), (collective, size))
                self.assertGreater(min(record["microseconds"]), 0)


class Verdicts(unittest.TestCase):
    def test_a_target_is_met_by_as_many_times_or_more(self):
        for ours, met in ((20.0, True), (20.1, False)):
            results, key = results_of({"gloo": 100, "banyan": ours})
            self.assertIs(torch_bench.verdict(results, key), met, ours)

    def test_all_targets_of_a_row_count(self):
        for shared, met in ((20, True), (21, False)):
            results, key = results_of({"gloo": 100, "banyan": 30, "banyan:shared": shared}, size=64 << 20)
            self.assertIs(torch_bench.verdict(results, key), met, shared)

    def test_without_a_target_or_a_peer_there_is_no_verdict(self):
        for results, key in (results_of({"gloo": 100, "banyan": 10}, size=512 << 10), results_of({"banyan": 10}),
                             results_of({"gloo": 10})):
            self.assertIsNone(torch_bench.verdict(results, key))

    def test_the_table_shows_the_ratio_and_what_was_missed(self):
        table = torch_bench.table(results_of({"gloo": 100, "banyan": 40, "banyan:shared": 10})[0], ranks=2)
        cells = [cell.strip() for cell in table.splitlines()[-1].split("|")]
        self.assertEqual(cells[1:-1], ["allreduce", "4 MiB", "100", "40.0", "2.50", "10.0", "10.00", "5", "NO", "0"])


class Losses(unittest.TestCase):
    def verdict_of(self, losses):
        return {what: right for what, _, right in torch_ddp_bench.compare_losses(losses)}

    def test_runs_over_banyan_must_agree_to_the_last_bit(self):
        same, other = [[1.0, 2.0]], [[1.0, math.nextafter(2.0, 3.0)]]
        self.assertEqual(self.verdict_of({"banyan": same, "banyan again": same, "banyan:shared": other}),
                         {"banyan and banyan again": True, "banyan and banyan:shared": False})

    def test_gloo_may_round_otherwise_later_more_than_at_first(self):
        steps = torch_ddp_bench.FIRST_STEPS + 1
        for where, factor, right in ((0, 1.000001, True), (0, 1.0001, False), (-1, 1.001, True), (-1, 1.1, False)):
            losses = [[2.0, 3.0] for _ in range(steps)]
            others = [list(row) for row in losses]
            others[where][1] *= factor
            self.assertEqual(self.verdict_of({"gloo": losses, "banyan": others}), {"gloo and banyan": right}, factor)

    def test_not_a_number_is_no_agreement(self):
        self.assertEqual(self.verdict_of({"gloo": [[1.0]], "banyan": [[math.nan]]}), {"gloo and banyan": False})

    def test_communication_is_what_the_step_takes_longer(self):
        rounds = [[0.5, 0.4], [0.4, 0.3], [9.0, 0.2]]
        step, communication, share = torch_ddp_bench.medians(rounds)
        self.assertEqual(step, 0.5)
        self.assertAlmostEqual(communication, 0.1)
        self.assertAlmostEqual(share, 0.2)


LAB = {"ranks": [{"name": "a", "namespace": "lab.a"}, {"name": "b", "namespace": "lab.b"}], "switches": [],
       "cables": [{"ends": [{"host": "a", "interface": f"cable{number}"}, {"host": "b", "interface": f"cable{number}"}]}
                  for number in (0, 1)]}


class InTheLab(unittest.TestCase):
    def test_bytes_are_those_of_all_cables_between_two_hosts_by_direction(self):
        counters = {"lab.a": {"lo": 5, "cable0": 10, "cable1": 100}, "lab.b": {"cable0": 1, "cable1": 2}}

        def tell(command, **_):
            interfaces = [{"ifname": name, "stats64": {"tx": {"bytes": sent}}}
                          for name, sent in counters[command[2]].items()]
            return unittest.mock.Mock(stdout=json.dumps(interfaces))

        with unittest.mock.patch("subprocess.run", tell):
            self.assertEqual(torch_lab_rank.bytes_sent(LAB), {"a -> b": 110, "b -> a": 3})

    def test_the_busiest_link_is_not_the_one_with_most_bytes_but_with_most_to_do(self):
        sent, rates = {"a -> b": 1000, "b -> c": 300}, {"a -> b": 8000, "b -> c": 800}
        self.assertEqual(torch_lab.busiest_link(sent, rates), ("b -> c", 300, 3.0))

    def test_the_target_is_met_by_as_many_times_or_more(self):
        for ours, target, met in ((0.25, 1.5, True), (0.2501, 1.5, False), (9, None, None)):
            figures = {"seconds": {"gloo": [[0.375, 0.1]] * 3, "banyan": [[ours, 0.1]] * 3}}
            ratio, found = torch_lab.verdict(figures, target)
            self.assertAlmostEqual(ratio, 0.375 / ours)
            self.assertIs(found, met, ours)
            cells = [cell.strip() for cell in torch_lab.timing_table(figures, target).splitlines()[-1].split("|")]
            self.assertEqual(cells[-3:-1], [str(target or "-"), {True: "yes", False: "NO", None: "-"}[met]])

    def test_plans_are_read_out_of_the_log_of_rank_0(self):
        log = """[banyan] 2026-11-21 15:07:25Z vm:7 rank 1 debug: allreduce of 8 B: forest, slices of 8 KiB
2026-11-21 15:07:25Z vm:6 rank 0 debug: broadcast of 8 B: forest, slices of 8 KiB
2026-11-21 15:07:26Z vm:6 rank 0 debug: allreduce of 1 kB: ring, slices of 8 KiB, estimated at 2 us
"""
        self.assertEqual(torch_lab.PLAN_LINE.findall(log),
                         ["allreduce of 1 kB: ring, slices of 8 KiB, estimated at 2 us"])

    def test_the_fabric_of_the_target_is_there(self):
        self.assertIn("swa <-> swb 25Mb/s", pathlib.Path(torch_lab.FABRIC).read_text(encoding="utf-8"))
        self.assertEqual(str(torch_ddp_bench.Size.parse(torch_lab.MODEL)), torch_lab.MODEL)


if __name__ == "__main__":
    unittest.main()
