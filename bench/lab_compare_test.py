"""How the comparison in the lab chooses and starts its peers, with a stand-in for `banyan`. Run by ctest, or:
python3 -m unittest lab_compare_test"""

import contextlib
import io
import pathlib
import subprocess
import tempfile
import unittest

import contest
import lab_compare

# Writes down how it was called; up makes the description of a lab of two ranks, run starts the command here.
BANYAN = """#!/bin/sh
state=$(dirname "$0")
echo "$*" >> "$state/calls"
case "$2" in
  up) test ! -e "$state/refuse" || { echo "namespaces are refused" >&2; exit 1; }
      echo '{"ranks": [{"number": 1, "address": "10.0.0.2/32"},
                       {"number": 0, "address": "10.0.0.1"}]}' > "$state/lab" ;;
  run) while [ "$1" != -- ]; do shift; done; shift
       BANYAN_LAB="$state/lab" BANYAN_FABRIC="$state/scaled" exec "$@" ;;
esac
"""


class WithStandIn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.banyan = self.folder / "banyan"
        self.banyan.write_text(BANYAN, encoding="utf-8")
        self.banyan.chmod(0o755)

    def lab(self):
        return lab_compare.Lab(self.banyan, pathlib.Path("ring.txt"), "1/2", "name")

    def calls(self):
        return (self.folder / "calls").read_text(encoding="utf-8").splitlines()


class LabTest(WithStandIn):
    def test_a_lab_is_up_inside_and_down_after(self):
        with self.lab() as lab:
            self.assertEqual(self.calls()[0], "lab up --name name ring.txt --scale 1/2")
            self.assertEqual(lab.addresses(), ["10.0.0.1", "10.0.0.2"])
            self.assertEqual(lab.scaled_fabric, f"{self.folder}/scaled")
        self.assertEqual(self.calls()[-1], "lab down --name name")

    def test_a_lab_that_is_refused_says_why_and_is_taken_down(self):
        (self.folder / "refuse").touch()
        with self.assertRaisesRegex(RuntimeError, "banyan lab up: namespaces are refused"), self.lab():
            self.fail("entered a lab that is not there")
        self.assertEqual(self.calls()[-1], "lab down --name name")

    def test_a_lab_is_down_after_an_error_inside(self):
        with self.assertRaises(KeyError), self.lab():
            raise KeyError
        self.assertEqual(self.calls()[-1], "lab down --name name")


class AgentTest(WithStandIn):
    def test_it_starts_a_command_in_the_namespace_of_the_address(self):
        with self.lab() as lab:
            agent = lab_compare.write_agent(lab, self.folder)
            subprocess.run([agent, "10.0.0.2", "true", "of", "daemon"], check=False, capture_output=True)
        self.assertIn("lab run --name name --no-prefix --rank 1 -- unshare --uts", "\n".join(self.calls()))

    def test_it_refuses_other_addresses(self):
        with self.lab() as lab:
            agent = lab_compare.write_agent(lab, self.folder)
            done = subprocess.run([agent, "10.0.0.9", "true"], check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "agent: 10.0.0.9 is no rank of the lab\n"))


class ChoiceTest(unittest.TestCase):
    def setUp(self):
        self.pilot = contest.Results()
        self.gather = contest.Key(8, "allgather", 64)
        self.reduce = contest.Key(8, "allreduce", 64)
        for key, series, microseconds in [(self.gather, "gloo", 9), (self.gather, "openmpi:0", 3),
                                          (self.gather, "openmpi:1", 4), (self.reduce, "gloo:ring", 5),
                                          (self.reduce, "gloo:bcube", 6), (self.reduce, "openmpi:1", 2)]:
            self.pilot.add(key, series, microseconds, 0)

    def launch(self, name):
        return contest.Launch(name, pathlib.Path(name), None, name)

    def test_only_what_was_best_somewhere_is_measured(self):
        launches = [self.launch(name) for name in ("gloo", "openmpi:0", "openmpi:1", "openmpi:2")]
        chosen = lab_compare.best_only(launches, self.pilot, self.pilot.times)
        self.assertEqual([(launch.name, options) for launch, options in chosen],
                         [("gloo", ["--contest", "gloo", "--collective", "allgather"]),
                          ("gloo", ["--contest", "gloo:ring", "--collective", "allreduce"]),
                          ("openmpi:0", ["--collective", "allgather"]), ("openmpi:1", ["--collective", "allreduce"])])

    def test_a_table_tells_rates_share_of_the_bound_and_ratio(self):
        self.pilot.add(self.reduce, "banyan:ordinary", 1, 0)
        limits = {"allgather": (64e6, 64e6), "allreduce": (128e6, 100e6)}
        with contextlib.redirect_stdout(io.StringIO()) as text:
            ratios = lab_compare.report("ring", self.pilot, limits)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.getvalue().splitlines()[4:6]]
        self.assertEqual(rows, [["allgather", "64 B", "64.00", "64.00", "-", "-", "7.11", "-", "21.33", "default",
                                 "-", "0"],
                                ["allreduce", "64 B", "128.00", "100.00", "64.00", "50.0 %", "12.80", "ring", "32.00",
                                 "ring", "2.00", "0"]])
        self.assertEqual(ratios, [2])

    def test_every_fabric_is_there(self):
        for name in lab_compare.FABRICS:
            self.assertTrue((pathlib.Path(lab_compare.__file__).parent / "fabrics" / f"{name}.txt").exists(), name)


if __name__ == "__main__":
    unittest.main()
