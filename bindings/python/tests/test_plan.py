"""Planning, the bound, verification, files, exports, comparison: against facts that Banyan did not compute."""
import os
import pickle
import tempfile
import unittest
import xml.etree.ElementTree
from fractions import Fraction

import banyan

GB = 10**9


class KnownBounds(unittest.TestCase):
    """What data sheets and the definition of the bound say, worked out by hand."""

    def test_a_full_crossbar_of_n_gathers_n_minus_1_shards_over_n_minus_1_links(self):
        for ranks in (2, 3, 5, 8):
            plan = banyan.plan("allgather", f"full:{ranks}@10GB/s")
            # Each rank takes (n-1)/n of the buffer in over n-1 links of 10 GB/s.
            self.assertEqual(plan.throughput, Fraction(10 * GB * ranks))
            self.assertTrue(plan.is_optimal)

    def test_a_ring_of_n_has_two_links_into_each_rank(self):
        for ranks in (3, 4, 6):
            plan = banyan.plan("allgather", f"ring:{ranks}@1GB/s")
            self.assertEqual(plan.throughput, Fraction(2 * GB * ranks, ranks - 1))

    def test_boxes_of_a100_are_bound_by_links_and_nics_of_one_gpu(self):
        # 300 GB/s of NVLink and 25 GB/s of InfiniBand into each of 16 GPUs, which lack 15 of 16 shards.
        plan = banyan.plan("allgather", "dgx-a100:2")
        self.assertEqual(plan.throughput, Fraction(325 * GB * 16, 15))
        self.assertEqual(plan.bound.throughput, plan.throughput)
        self.assertEqual([cut.bytes_per_second for cut in plan.bound.cuts], [325 * GB])

    def test_reduce_scatter_is_allgather_turned_round(self):
        for fabric in ("dgx-a100:2", "torus:3x3@1GB/s", "mi250:2"):
            self.assertEqual(banyan.bound("reduce-scatter", fabric).throughput,
                             banyan.bound("allgather", fabric).throughput)

    def test_a_broadcast_is_bound_by_the_root_of_a_star(self):
        fabric = "a <-> sw 1GB/s; b <-> sw 2GB/s; c <-> sw 2GB/s"
        self.assertEqual(banyan.plan("broadcast", fabric, root="a").throughput, 1 * GB)
        self.assertEqual(banyan.plan("broadcast", fabric, root="b").throughput, 1 * GB)  # into a

    def test_the_bound_of_an_allreduce_on_even_boxes_is_the_sum_of_both_phases(self):
        bound = banyan.bound("allreduce", "dgx-h100:2")
        self.assertEqual(bound.seconds_per_byte, banyan.bound("reduce-scatter", "dgx-h100:2").seconds_per_byte +
                         banyan.bound("allgather", "dgx-h100:2").seconds_per_byte)
        self.assertEqual(bound.cuts, [])
        self.assertTrue(bound.weighted_cuts)
        self.assertTrue(banyan.plan("allreduce", "dgx-h100:2").is_optimal)

    def test_an_allreduce_on_a_path_uses_every_link_both_ways_at_once(self):
        path = "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s"
        self.assertEqual(banyan.bound("allreduce", path).throughput, 1 * GB)
        self.assertEqual(banyan.plan("allreduce", path).throughput, 1 * GB)


class Trees(unittest.TestCase):
    def test_shares_add_up_and_every_tree_reaches_every_rank_once(self):
        plan = banyan.plan("allgather", "mi250:2")
        self.assertEqual(sum(tree.share for tree in plan.trees), 1)
        for tree in plan.trees:
            self.assertEqual(tree.reduce, [])
            self.assertEqual(sorted([tree.root, *(hop.target for hop in tree.spread)]), sorted(plan.ranks))
            has = {tree.root}
            for hop in tree.spread:
                self.assertIn(hop.source, has)
                has.add(hop.target)

    def test_hops_go_along_links_of_the_fabric(self):
        plan = banyan.plan("allreduce", "dgx-a100:2")
        links, ranks = plan.fabric.links, set(plan.fabric.ranks)
        for tree in plan.trees:
            for hop in [*tree.reduce, *tree.spread]:
                at = hop.source
                for number in hop.links:
                    self.assertEqual(links[number].source, at)
                    at = links[number].target
                    self.assertTrue(at == hop.target or at not in ranks)
                self.assertEqual(at, hop.target)

    def test_loads_of_the_trees_make_the_throughput(self):
        plan = banyan.plan("allgather", "dgx-a100:2", trees=1)
        load = [Fraction(0)] * len(plan.fabric.links)
        for tree in plan.trees:
            for hop in tree.spread:
                for number in hop.links:
                    load[number] += tree.share
        times = [share / link.bandwidth for share, link in zip(load, plan.fabric.links)]
        self.assertEqual(max(times), plan.seconds_per_byte)

    def test_trees_are_a_sequence(self):
        trees = banyan.plan("broadcast", "full:4@1GB/s", root=2).trees
        self.assertEqual(trees[-1], trees[len(trees) - 1])
        self.assertEqual(list(trees)[:2], trees[:2])
        with self.assertRaises(IndexError):
            trees[len(trees)]


class Options(unittest.TestCase):
    def test_heights_are_kept(self):
        plan = banyan.plan("allgather", "torus:4x4@1GB/s", max_height=4)
        self.assertEqual(plan.height, 4)
        self.assertTrue(plan.verify())

    def test_a_number_of_trees_is_kept(self):
        self.assertEqual(len(banyan.plan("allgather", "mi250:2", trees=1).trees), 32)

    def test_ranks_and_roots_go_by_name_and_by_number(self):
        by_text = banyan.plan("broadcast", "dgx-a100:1", ranks="0-3", root="gpu2")
        by_list = banyan.plan("broadcast", "dgx-a100:1", ranks=["gpu0", 1, "gpu2", 3], root=2)
        self.assertEqual(by_text.ranks, ["gpu0", "gpu1", "gpu2", "gpu3"])
        self.assertEqual(by_text.root, "gpu2")
        self.assertEqual(by_text.to_json(), by_list.to_json())

    def test_weights_are_shares(self):
        plan = banyan.plan("allgather", "full:4@1GB/s", weights=[1, 2, 1, 4])
        for place, weight in enumerate([1, 2, 1, 4]):
            self.assertEqual(sum(tree.share for tree in plan.trees if tree.root == plan.ranks[place]),
                             Fraction(weight, 8))

    def test_a_size_chooses_low_trees_for_small_buffers(self):
        small, large = (banyan.plan("allreduce", "mi250:2", bytes=size) for size in ("1KiB", "1GiB"))
        self.assertLess(small.height, large.height)
        self.assertLessEqual(small.throughput, large.throughput)
        self.assertTrue(small.verify() and large.verify())

    def test_spellings_of_other_libraries_are_understood(self):
        self.assertEqual(banyan.plan("all_gather_into_tensor", "full:3@1GB/s").collective, "allgather")


class Verification(unittest.TestCase):
    def test_every_plan_of_every_collective_is_right(self):
        for collective in ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"):
            for fabric in ("dgx-h100:2", "mi250:1", "torus:3x3@1GB/s", "leaf-spine:leaves=2,hosts=2,spines=2@10GB/s"):
                with self.subTest(collective=collective, fabric=fabric):
                    plan = banyan.plan(collective, fabric)
                    verdict = plan.verify()
                    self.assertTrue(verdict, verdict.reason)
                    self.assertEqual(verdict.bound.seconds_per_byte, plan.bound.seconds_per_byte)
                    self.assertGreaterEqual(plan.bound.throughput, 0)

    def test_a_wrong_plan_is_found_out(self):
        plan = banyan.plan("allgather", "full:3@1GB/s")
        text = plan.to_json()
        claim = f'"{plan.seconds_per_byte}"'
        self.assertIn(claim, text)
        forged = text.replace(claim, f'"{plan.seconds_per_byte / 2}"')
        with self.assertRaises(banyan.Error) as caught:
            banyan.Plan.from_json(forged)
        self.assertEqual(caught.exception.code, "invalid_input")
        self.assertIn("no valid plan", caught.exception.message)
        verdict = banyan.Plan.from_json(forged, check=False).verify()
        self.assertFalse(verdict)
        self.assertIn("claim", verdict.reason)

    def test_another_fabric_is_a_mismatch(self):
        plan = banyan.plan("allgather", "dgx-a100:2")
        self.assertTrue(plan.verify("dgx-a100:2"))
        with self.assertRaises(banyan.Error) as caught:
            plan.verify(banyan.Fabric("dgx-a100:2").fail("gpu3-ib0"))
        self.assertEqual(caught.exception.code, "mismatch")


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "plan.json")

    def test_a_saved_plan_is_the_same_plan(self):
        plan = banyan.plan("reduce", "dgx-a100:1", root=5)
        plan.save(self.path)
        loaded = banyan.Plan.load(self.path)
        self.assertEqual(loaded.to_json(), plan.to_json())
        self.assertEqual(loaded.bound.witness, plan.bound.witness)
        self.assertTrue(banyan.verify(self.path))

    def test_plans_travel_between_processes(self):
        plan = banyan.plan("allgather", "mi250:1")
        self.assertEqual(pickle.loads(pickle.dumps(plan)).to_json(), plan.to_json())

    def test_exports_are_what_the_runtimes_read(self):
        export = banyan.plan("allgather", "dgx-a100:1", trees=1).export("msccl", name="mine", max_bytes="1GiB")
        root = xml.etree.ElementTree.fromstring(export)
        self.assertEqual((root.tag, root.get("name"), root.get("ngpus")), ("algo", "mine", "8"))
        self.assertTrue(all(limit.needed <= limit.allowed for limit in export.limits))
        self.assertIn("element counts", export.sizes)
        export.save(self.path)
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), export)

    def test_pictures_name_the_plan_and_its_ranks(self):
        plan = banyan.plan("allgather", "dgx-a100:1")
        picture = plan.svg(root="gpu3", trees=1)
        xml.etree.ElementTree.fromstring(picture)
        self.assertIn("dgx-a100:1", picture)
        self.assertIn("gpu3", picture)
        self.assertEqual(plan._repr_svg_(), plan.svg())
        self.assertIn("digraph", plan.dot())


class Comparing(unittest.TestCase):
    def test_the_forest_is_never_behind_and_every_planner_has_a_row(self):
        comparison = banyan.compare("allgather", "torus:4x4@25GB/s", ["64KiB", 2**20])
        self.assertEqual([row.planner for row in comparison],
                         [planner.name for planner in banyan.list_planners("allgather")])
        self.assertEqual([planner.name for planner in banyan.list_planners("all-to-all")],
                         ["flow", "two-tier", "pairwise"])
        forest = comparison[0]
        for row in comparison:
            self.assertEqual(list(row.estimates), [2**16, 2**20] if not row.why_not else list(row.estimates))
            if not row.why_not:
                self.assertGreaterEqual(forest.throughput, row.throughput)
        self.assertEqual(forest.throughput, comparison.bound.throughput)

    def test_a_planner_that_cannot_says_why(self):
        rows = {row.planner: row for row in banyan.compare("allgather", "ring:6@1GB/s")}
        self.assertNotEqual(rows["recursive-doubling"].why_not, "")
        self.assertIsNone(rows["recursive-doubling"].throughput)

    def test_the_table_has_a_line_for_each(self):
        comparison = banyan.compare("allreduce", "dgx-a100:1", ["1MiB"])
        self.assertEqual(len(str(comparison).splitlines()), 2 + len(comparison))


if __name__ == "__main__":
    unittest.main()
