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


    def test_an_all_to_all_on_a_torus_crosses_its_middle(self):
        # A quarter of all that 16 ranks hold goes from either half to the other, over 2 x 4 links each way.
        plan = banyan.plan("all-to-all", "torus:4x4@1GB/s")
        self.assertEqual(plan.throughput, 2 * GB)
        self.assertTrue(plan.is_optimal)
        self.assertTrue(plan.verify("torus:4x4@1GB/s"))

    def test_an_all_to_all_between_two_boxes_leaves_by_the_nics(self):
        self.assertEqual(banyan.bound("alltoall", "dgx-a100:2").throughput, Fraction(25 * GB * 16, 8))


class AllToAll(unittest.TestCase):
    STAR = "a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s"
    TRAFFIC = [[9, 4, 2], [0, 5, 2], [6, 0, 0]]

    def test_lengths_of_links_prove_the_bound(self):
        fabric = banyan.Fabric("torus:3x4@1GB/s")
        proof = banyan.bound("all-to-all", fabric).link_lengths
        self.assertEqual(len(proof.lengths), len(fabric.links))
        self.assertEqual(proof.carried, sum(length * link.bandwidth
                                            for length, link in zip(proof.lengths, fabric.links)))
        names, far = fabric.ranks, 10**18
        distance = {a: {b: 0 if a == b else far for b in names} for a in names}
        for length, link in zip(proof.lengths, fabric.links):
            distance[link.source][link.target] = min(distance[link.source][link.target], length)
        for by in names:
            for a in names:
                for b in names:
                    distance[a][b] = min(distance[a][b], distance[a][by] + distance[by][b])
        self.assertEqual(proof.crossed, sum(distance[a][b] for a in names for b in names))
        # A rank holds a part for each rank.
        self.assertEqual(banyan.bound("all-to-all", fabric).seconds_per_byte,
                         Fraction(proof.crossed, proof.carried * len(names)))
        self.assertEqual(banyan.bound("all-to-all", fabric).cuts, [])
        self.assertIsNone(banyan.bound("allgather", fabric).link_lengths)

    def test_a_traffic_matrix_says_what_each_rank_sends_each(self):
        plan = banyan.plan("all-to-all", self.STAR, traffic=self.TRAFFIC)
        self.assertEqual(plan.traffic, self.TRAFFIC)
        self.assertTrue(plan.is_optimal and plan.verify())
        # a sends 6 and receives 6 of 28 parts; M is a third of them.
        self.assertEqual(plan.throughput, Fraction(28, 3 * 6) * GB)
        paths = {(tree.root, tree.spread[-1].target) for tree in plan.trees}
        self.assertEqual(paths, {("a", "b"), ("a", "c"), ("b", "c"), ("c", "a")})
        self.assertEqual(sum(tree.share for tree in plan.trees), 1)
        self.assertIsNone(banyan.plan("all-to-all", self.STAR).traffic)
        self.assertEqual(banyan.Plan.from_json(plan.to_json()).traffic, self.TRAFFIC)
        self.assertEqual(banyan.bound("all-to-all", self.STAR, traffic=self.TRAFFIC).throughput, plan.throughput)

    def test_traffic_may_be_any_rows_of_whole_numbers(self):
        class Row:  # as of numpy: numbers that are no int
            def __init__(self, cells):
                self.cells = cells

            def __iter__(self):
                return (Fraction(cell) for cell in self.cells)

        plan = banyan.plan("all-to-all", self.STAR, traffic=tuple(Row(row) for row in self.TRAFFIC))
        self.assertEqual(plan.traffic, self.TRAFFIC)
        for wrong, words in (([], "is empty"), ([[0, 1], [1, 0], [1]], "is not square"),
                             ([[0, 1.5, 0], [1, 0, 0], [1, 0, 0]], "what rank 0 sends to rank 1 is 1.5"),
                             ([[0, 1, 0], [1, 0, -2], [1, 0, 0]], "what rank 1 sends to rank 2 is -2"),
                             ([[0, 1 << 80, 0], [1, 0, 0], [1, 0, 0]], "what rank 0 sends to rank 1"),
                             ([[0, 1], [1, 0]], "3"), ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "to another")):
            with self.assertRaises(banyan.Error) as caught:
                banyan.plan("all-to-all", self.STAR, traffic=wrong)
            self.assertIn(words, str(caught.exception))
        with self.assertRaises(banyan.Error):
            banyan.plan("allgather", self.STAR, traffic=self.TRAFFIC)

    def test_planners_are_compared_and_predicted(self):
        rows = {row.planner: row for row in banyan.compare("all-to-all", "torus:4x4@1GB/s")}
        self.assertEqual(rows["flow"].times_bound, 1)
        self.assertGreater(rows["pairwise"].times_bound, 1.2)
        self.assertIn("boxes", rows["two-tier"].why_not)
        uneven = banyan.compare("all-to-all", self.STAR, traffic=self.TRAFFIC)
        self.assertEqual(uneven.bound.throughput, Fraction(28, 18) * GB)
        time = banyan.predict("all-to-all", self.STAR, "1GB", traffic=self.TRAFFIC).time
        self.assertAlmostEqual(time, 18 / 28, delta=0.01)
        quickest = banyan.plan("all-to-all", "torus:4x4@1GB/s", bytes="1GB")
        self.assertTrue(quickest.is_optimal)

    def test_it_is_exported_for_msccl(self):
        text = banyan.plan("all-to-all", "full:4@1GB/s").export("msccl")
        self.assertEqual(xml.etree.ElementTree.fromstring(text).get("coll"), "alltoall")


class Repairs(unittest.TestCase):
    def test_trees_that_a_lost_link_does_not_touch_stay(self):
        old = banyan.plan("allgather", "dgx-a100:4")
        repair = old.repair(banyan.Fabric("dgx-a100:4").fail("gpu3-ib0"))
        self.assertFalse(repair.planned_anew)
        self.assertTrue(repair.plan.verify())
        self.assertEqual({(link.source, link.target) for link in repair.links}, {("gpu3", "ib0"), ("ib0", "gpu3")})
        self.assertEqual([(link.before, link.after) for link in repair.links], [(25 * GB, None)] * 2)
        self.assertEqual(repair.trees_kept + repair.trees_patched + repair.trees_moved, len(old.trees))
        kept = [(place, number) for place, number in enumerate(repair.kept_from) if number is not None]
        self.assertEqual(len(kept), repair.trees_kept)
        for place, number in kept[:5]:
            before = [(hop.source, hop.target) for hop in old.trees[number].spread]
            self.assertEqual([(hop.source, hop.target) for hop in repair.plan.trees[place].spread], before)
        self.assertEqual(repair.seconds_per_byte_before, old.seconds_per_byte)
        self.assertGreaterEqual(repair.plan.seconds_per_byte, old.seconds_per_byte)

    def test_what_cannot_be_repaired_is_an_error(self):
        plan = banyan.plan("broadcast", "full:4@1GB/s", root=0)
        with self.assertRaises(banyan.Error):
            plan.repair(banyan.Fabric("full:4@1GB/s").remove(plan.root))
        with self.assertRaises(banyan.Error) as caught:
            banyan.plan("all-to-all", "full:4@1GB/s").repair("full:4@1GB/s")
        self.assertEqual(caught.exception.code, "unsupported")


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
