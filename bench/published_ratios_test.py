"""The arithmetic of published_ratios.py. Run: python3 -m unittest published_ratios_test"""

import unittest

import published_model as model
import published_ratios


class Workloads(unittest.TestCase):
    def test_tensors_and_bytes_are_the_published_ones(self):
        for name, count, mebibytes in [("VGG16", 32, 528), ("ResNet101", 314, 170), ("GPT2", 148, 475)]:
            tensors = model.WORKLOADS[name]()
            self.assertEqual(len(tensors), count, name)
            self.assertAlmostEqual(sum(tensor.values for tensor in tensors) * 4 / 2**20, mebibytes, delta=0.5, msg=name)

    def test_the_backward_pass_takes_two_thirds(self):
        for make in model.WORKLOADS.values():
            buckets = model.layer_wise(make(), 0.3)
            self.assertAlmostEqual(sum(bucket.backward for bucket in buckets), 0.2)


class Steps(unittest.TestCase):
    BUCKETS = [model.Bucket(100, 1.0), model.Bucket(200, 1.0), model.Bucket(10, 2.0)]

    @staticmethod
    def link(size, code):
        return size / (10 if code == "none" else 100)

    def test_by_hand(self):
        # Forward 2; there at 3, 4, 6; the link is free at 13, 33, 34.
        self.assertAlmostEqual(model.step_seconds(6, self.BUCKETS, self.link, {}), 34)

    def test_launches_delay_the_backward_pass(self):
        coded = [model.Bucket(each.bytes, each.backward, "sign") for each in self.BUCKETS]
        # There at 3.5, 5, 7.5; free at 4.5, 7, 7.6.
        self.assertAlmostEqual(model.step_seconds(6, coded, self.link, {"sign": 0.5}), 7.6)

    def test_buckets_hold_all_tensors(self):
        sizes = model.sizes_up_to(self.BUCKETS, 150)
        self.assertEqual(sizes, [2, 1])
        self.assertEqual(model.joined(self.BUCKETS, sizes, ["none", "sign"]),
                         [model.Bucket(300, 2.0), model.Bucket(10, 2.0, "sign")])
        with self.assertRaises(ValueError):
            model.joined(self.BUCKETS, [2])

    def test_curves(self):
        curve = model.Curve([(10, 2.0), (0, 1.0), (20, 4.0)])
        self.assertEqual([curve(5), curve(15), curve(30)], [1.5, 3.0, 6.0])
        self.assertEqual(curve.line(10, 20), (0.0, 0.2))

    def test_solving(self):
        self.assertAlmostEqual(model.solve(lambda x: 1 / x, 4, 1e-3, 1e3), 0.25)
        self.assertIsNone(model.solve(lambda x: 1 / x, 1e9, 1e-3, 1e3))


class Bytes(unittest.TestCase):
    def test_sparse_ways_by_the_published_formulas(self):
        # Of a rank: gather d (4 + 4/w) (n-1), shards (d (4 + 4/w) + 4 D + 1/(8 w)) (n-1)/n. Here buffers, by n/(n-1).
        ranks, share, union = 16, 0.01, 0.10
        self.assertAlmostEqual(model.gathered(share, ranks) * 15 / 16, 1.20)
        self.assertAlmostEqual((model.pushed(share) + model.pulled(union)) * 15 / 16, 0.567, places=3)
        by_row = model.pushed(0.0096, width=64) + model.pulled(0.0557, width=64)
        self.assertAlmostEqual(by_row * 7 / 8, 0.231, places=3)

    def test_codes(self):
        self.assertAlmostEqual(32 / model.BITS["int8"], 3.94, places=2)
        self.assertEqual([model.BITS["int4"], model.BITS["sign"]], [4.25, 1.125])


class Judgement(unittest.TestCase):
    def test_a_ratio_is_met_or_not(self):
        def verdict(ratio):
            return model.verdict(2.0, ratio, bound=3.0)

        self.assertEqual([verdict(2.0), verdict(1.996), verdict(1.99), verdict(None)], ["met", "met", "NO", "-"])

    def test_what_is_beyond_its_bound_is_no_evidence(self):
        self.assertEqual([model.verdict(2.0, 3.1, 3.0), model.verdict(2.0, 3.2, 3.0)], ["met", "latency"])

    def test_one_way_must_reach_both_columns(self):
        def row(paper, predicted, lab):
            return published_ratios.Row(paper, "", "dense", 2.0, "", predicted, lab, 3.0)

        rows = [row("a", 2.5, 1.5), row("a", 1.5, 2.5), row("b", 1.9, 1.9), row("b", 2.5, 2.5), row("c", 2.5, None),
                row("d", 2.5, 9.0)]
        self.assertEqual(published_ratios.unmet(rows), [("a", "dense"), ("d", "dense")])


class Marks(unittest.TestCase):
    def test_rows_that_cannot_fall_short_are_marked(self):
        def row(is_fixed):
            return published_ratios.Row("a", "w", "dense", 3.52, "sign", 3.53, 3.41, 3.53, is_fixed=is_fixed)

        *_, fixed, other = published_ratios.table_of([row(True), row(False)]).splitlines()
        self.assertIn(" 3.52† ", fixed)
        self.assertIn(" 3.52 ", other)

    def test_ways_that_send_less_than_the_papers_are_fixed(self):
        class Planner:
            @staticmethod
            def seconds(collective, fabric, size, codes=("none",)):
                return {code: size / 4 * published_ratios.model.BITS[code] * 1e-10 for code in codes}

        class Labs:
            are_there = False

        rows = {row.ours: row for row in published_ratios.sdp4bit(Planner(), Labs())}
        self.assertEqual({name: row.is_fixed for name, row in rows.items()},
                         {"int4 gradients, int4 weights": False, "int8 gradients, int8 weights": False,
                          "sign gradients, int4 weights": True})
        for row in rows.values():
            self.assertEqual(row.is_fixed, row.predicted >= row.published)


class Sparse(unittest.TestCase):
    def test_rows_have_the_shares_that_were_asked_for(self):
        *ranks, total = published_ratios.rows_with(80_000, 16, 0.01, 0.10)
        self.assertEqual([total, len(ranks), {len(rows) for rows in ranks}], [80_000, 16, {800}])
        self.assertAlmostEqual(len(set().union(*ranks)) / total, 0.10, places=3)


if __name__ == "__main__":
    unittest.main()
