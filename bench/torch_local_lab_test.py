"""What torch_local_lab.py asks for, trains and leaves behind. Run: python3 -m unittest torch_local_lab_test"""

import argparse
import contextlib
import io
import math
import os
import pathlib
import signal
import tempfile
import unittest
import unittest.mock

try:
    import torch_common
    import torch_ddp_bench
    import torch_lab
    import torch_lab_rank
    import torch_local_lab
except ImportError:
    torch_common = None
try:
    import banyan_torch
except ImportError:
    banyan_torch = None


def setUpModule():
    if torch_common is None:
        raise unittest.SkipTest("there is no PyTorch here")


def arguments_of(*words):
    with contextlib.redirect_stderr(io.StringIO()):
        return torch_local_lab.parse_arguments(["build", *words])


class Series(unittest.TestCase):
    def test_each_number_of_steps_has_the_baseline_and_both_kinds_of_local_steps(self):
        found = [torch_common.exchange_of(series) for series in torch_local_lab.all_series([4, 64])]
        self.assertEqual(found[:2], [("gradients", 1, "none")] * 2)
        kinds = [("accumulate", "none"), ("local", "none"), ("local", "int4"), ("levels", "none"), ("levels", "int4")]
        self.assertEqual(found[2:], [(kind, steps, codec) for steps in (4, 64) for kind, codec in kinds])

    def test_stretches_have_whole_numbers_of_exchanges(self):
        arguments = arguments_of("--every", "4,16,64", "--train-steps", "320")
        self.assertEqual((arguments.every, arguments.steps), ([4, 16, 64], 64))
        for wrong in (["--every", "4,6"], ["--every", "0"], ["--every", "16", "--train-steps", "40"]):
            with self.assertRaises(SystemExit, msg=wrong):
                arguments_of(*wrong)

    def test_the_cable_between_the_boxes_has_the_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            text = torch_local_lab.with_cable(torch_lab.FABRIC, 100, folder).read_text(encoding="utf-8")
        self.assertIn("swa <-> swb 100Mb/s", text)
        self.assertNotIn("25Mb/s", text)


class Stopped(unittest.TestCase):
    def test_the_lab_is_taken_down(self):
        down = []

        class Lab:
            __enter__ = lambda self: self  # noqa: E731
            __exit__ = lambda self, *_: down.append(True)  # noqa: E731

        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        stop = lambda *_: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
        try:
            with unittest.mock.patch("sys.argv", ["torch_local_lab.py", "build"]), \
                    unittest.mock.patch("lab_compare.Lab", lambda *_: Lab()), \
                    unittest.mock.patch("torch_lab.show_addresses_to_gloo"), \
                    unittest.mock.patch("torch_lab.run_in_lab", stop), \
                    contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaises(SystemExit) as ended:
                torch_local_lab.main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self.assertEqual(ended.exception.code, 128 + signal.SIGTERM)
        self.assertEqual(down, [True])


def train_each(groups, _series, arguments):
    return {series: torch_lab_rank.train_locally(groups, [series], arguments)["loss"] for series in arguments.trained}


@unittest.skipIf(banyan_torch is None, "banyan_torch is not here")
class Training(unittest.TestCase):  # on one host, where nothing is coded
    def test_kinds_differ_where_they_are_to(self):
        dense, *others = ["banyan", "banyan:accumulate:1", "banyan:accumulate:2", "banyan:local:2", "banyan:levels:2"]
        arguments = argparse.Namespace(models=[torch_ddp_bench.Size.parse("1x16x1")], steps=4, block=2, timeout=100,
                                       trained=[dense, *others])
        losses = torch_common.run_ranks(train_each, ["banyan"], 4, arguments)
        self.assertTrue(all(map(math.isfinite, losses.values())), losses)
        self.assertEqual(losses[dense], losses.pop("banyan:accumulate:1"))
        self.assertEqual(len(set(losses.values())), len(losses), losses)


if __name__ == "__main__":
    unittest.main()
