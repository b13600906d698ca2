"""Every mistake is a banyan.Error in one line that names the culprit and the mend."""
import pickle
import unittest

import banyan


class Mistakes(unittest.TestCase):
    def expect(self, code, text, call):
        with self.assertRaises(banyan.Error) as caught:
            call()
        error = caught.exception
        self.assertEqual(error.code, code, error)
        self.assertIn(text, str(error))
        self.assertNotIn("\n", str(error))
        self.assertNotIn("--", str(error))  # options of the command line are arguments here
        return error

    def test_fabrics(self):
        self.expect("not_found", "did you mean 'dgx-a100'", lambda: banyan.Fabric("dgx-a1000:2"))
        self.expect("invalid_input", "line 1", lambda: banyan.Fabric("a <-> b 1XB/s; c -> a"))
        self.expect("invalid_input", "boxes", lambda: banyan.Fabric("dgx-a100:2", boxes=0))
        self.expect("invalid_input", "boxes is for descriptions of one server",
                    lambda: banyan.Fabric("dgx-a100:2", boxes=2))
        self.expect("not_found", "gpu99", lambda: banyan.Fabric("dgx-a100:2").fail("gpu99"))
        self.expect("invalid_input", "nodes", lambda: banyan.Fabric({"banyan": "fabric/1"}))
        self.expect("invalid_input", "name is empty", lambda: banyan.Fabric(""))

    def test_collectives_ranks_and_roots(self):
        self.expect("invalid_input", "allreduce", lambda: banyan.plan("alreduce", "full:3@1GB/s"))
        error = self.expect("not_found", "root", lambda: banyan.plan("broadcast", "full:3@1GB/s", root="x"))
        self.assertEqual(error.where, "root")
        self.expect("not_found", "ranks 0 to 2", lambda: banyan.plan("broadcast", "full:3@1GB/s", root=3))
        self.expect("not_found", "ranks 0 to 2", lambda: banyan.plan("broadcast", "full:3@1GB/s", root=-1))
        self.expect("not_found", "ranks", lambda: banyan.plan("allgather", "full:3@1GB/s", ranks=["r0", "nobody"]))
        self.expect("invalid_input", "is empty", lambda: banyan.plan("allgather", "full:3@1GB/s", ranks=[]))
        self.expect("invalid_input", "negative", lambda: banyan.plan("allgather", "full:3@1GB/s", weights=[1, -1, 1]))
        self.expect("invalid_input", "", lambda: banyan.plan("allgather", "full:3@1GB/s", weights=[1, 1]))
        self.expect("invalid_input", "", lambda: banyan.plan("allgather", "full:3@1GB/s", root=0))

    def test_options_of_a_plan(self):
        self.expect("invalid_input", "max_height 1 cannot be met",
                    lambda: banyan.plan("allgather", "torus:4x4@1GB/s", max_height=1))
        self.expect("invalid_input", "trees", lambda: banyan.plan("allgather", "full:3@1GB/s", trees=0))
        self.expect("invalid_input", "bytes", lambda: banyan.plan("allgather", "full:3@1GB/s", bytes="1MB", trees=2))
        self.expect("invalid_input", "bytes", lambda: banyan.plan("allgather", "full:3@1GB/s", bytes=0))
        self.expect("invalid_input", "bytes", lambda: banyan.predict("allgather", "full:3@1GB/s", bytes="many"))

    def test_numbers_and_switches(self):
        """Sizes, times, bandwidths, counts and switches are told as they were given, not as the library read them."""
        full = "full:3@1GB/s"
        plan = banyan.plan("allgather", full)
        self.expect("invalid_input", "bytes: 1.5 is not a whole number", lambda: plan.estimate(1.5))
        self.expect("invalid_input", "bytes: True is not a whole", lambda: banyan.predict(plan, bytes=True))
        self.expect("invalid_input", "bytes: nan is not a whole", lambda: banyan.predict(plan, bytes=float("nan")))
        self.expect("invalid_input", "alpha: -1.0 is no time", lambda: banyan.predict(plan, alpha=-1.0))
        self.expect("invalid_input", "window: [] is no time", lambda: banyan.sweep(plan, sizes="1MiB:2MiB", window=[]))
        self.expect("invalid_input", "fold: 'no' is not True or False", lambda: banyan.predict(plan, fold="no"))
        self.expect("invalid_input", "lower: 0 is not True", lambda: banyan.plan("allgather", full, lower=0))
        self.expect("invalid_input", "trees: 1.5 is not a whole", lambda: banyan.plan("allgather", full, trees=1.5))
        self.expect("invalid_input", "exact: 'yes' is not True", lambda: plan.export("msccl", exact="yes"))
        self.expect("invalid_input", "in_place: 1 is not True", lambda: plan.export("msccl", in_place=1))
        self.expect("invalid_input", "check: None is not True", lambda: banyan.Plan.from_json("{}", check=None))
        self.expect("invalid_input", "bandwidth: -5 is no bandwidth",
                    lambda: banyan.Fabric(full).degrade("gpu0-gpu1", -5))
        self.expect("invalid_input", "boxes: 1.5 is not a whole", lambda: banyan.Fabric(full, boxes=1.5))
        self.expect("invalid_input", "weights: 1.5 is not a whole",
                    lambda: banyan.plan("allgather", full, weights=[1, 1.5, 1]))
        half = banyan.Fabric(full).degrade("gpu0-gpu1", 5e8)
        self.assertEqual(half, banyan.Fabric(full).degrade("gpu0-gpu1", 500_000_000))

    def test_files(self):
        self.expect("not_found", "/nowhere/plan.json", lambda: banyan.Plan.load("/nowhere/plan.json"))
        self.expect("invalid_input", "line 1", lambda: banyan.Plan.from_json("{"))
        self.expect("not_found", "/nowhere", lambda: banyan.Fabric("full:3@1GB/s").save("/nowhere/f.json"))

    def test_predictions(self):
        plan = banyan.plan("allgather", "full:3@1GB/s")
        self.expect("invalid_input", "fabric", lambda: banyan.predict("allgather"))
        self.expect("mismatch", "another fabric", lambda: banyan.predict(plan, "full:4@1GB/s"))
        self.expect("mismatch", "another collective",
                    lambda: banyan.predict([plan, banyan.plan("allreduce", "full:3@1GB/s")]))
        self.expect("invalid_input", "root", lambda: banyan.predict(plan, root=0))
        self.expect("invalid_input", "':'", lambda: banyan.sweep(plan, sizes="1MiB"))
        self.expect("invalid_input", "ends before it begins", lambda: banyan.sweep(plan, sizes="1MiB:1KiB"))
        self.expect("invalid_input", "neither a plan file nor a collective", lambda: banyan.predict("allgatther"))
        self.expect("unsupported", "pieces", lambda: banyan.predict(plan, bytes="1TiB", slice=1))

    def test_exports_that_do_not_fit_say_how_many_trees_would(self):
        error = self.expect("invalid_input", "msccl", lambda: banyan.plan("allgather", "full:3@1GB/s").export("xml"))
        self.assertEqual(error.code, "invalid_input")

    def test_types_are_told_as_python_tells_them(self):
        with self.assertRaises(TypeError):
            banyan.plan("allgather", 3)
        with self.assertRaises(TypeError):
            banyan.plan("allgather", "full:3@1GB/s", depth=3)

    def test_errors_travel_between_processes(self):
        error = self.expect("not_found", "", lambda: banyan.Plan.load("/nowhere/plan.json"))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((copy.code, copy.where, str(copy)), (error.code, error.where, str(error)))


if __name__ == "__main__":
    unittest.main()
