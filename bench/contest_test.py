"""What the comparisons compute and how they treat failing peers. Run by ctest, or: python3 -m unittest contest_test"""

import pathlib
import tempfile
import time
import unittest

import compare
import contest

KEY = contest.Key(ranks=2, collective="allreduce", bytes=4096)


def fake_peer(folder, script, printed="peer"):
    """A launch of a shell script that sees the peer's options as its arguments."""
    program = pathlib.Path(folder) / "peer"
    program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
    program.chmod(0o755)
    return contest.Launch("renamed", program, lambda ranks, meet: [str(program), str(ranks), meet], printed)


class Launches(unittest.TestCase):
    def test_a_build_runs_with_its_own_library_wherever_it_is(self):
        """Both of two builds that are compared would run that of the place where they were built."""
        build = pathlib.Path("/some/copy")
        words = compare.self_starting(build, "banyan", bind=False).command(2, "/meet")
        self.assertEqual(words[:3], ["env", "LD_LIBRARY_PATH=/some/copy/bindings/c", "/some/copy/banyan_peer"])


class Lines(unittest.TestCase):
    def test_a_peer_s_line_is_read(self):
        self.assertEqual(contest.parse_line("gloo:ring,allreduce,64,12.5,3\n"), ("gloo:ring", "allreduce", 64, 12.5, 3))

    def test_what_launchers_say_is_no_line(self):
        for line in ["", "a warning", "a,b,c,d,e", "x,allreduce,many,1,0", "x,allreduce,4,1"]:
            self.assertIsNone(contest.parse_line(line), line)


class Figures(unittest.TestCase):
    def setUp(self):
        self.results = contest.Results()
        for series, times in {"gloo:ring": [9, 7, 8], "gloo:bcube": [6, 6, 20], "mpich": [3, 5, 4]}.items():
            for microseconds in times:
                self.results.add(KEY, series, microseconds, wrong=0)

    def test_a_figure_is_the_median_of_the_rounds(self):
        self.assertEqual(self.results.median(KEY, "gloo:ring"), 8)
        self.assertIsNone(self.results.median(KEY, "unknown"))

    def test_a_family_counts_by_its_best_variant(self):
        self.assertEqual(self.results.best(KEY, ["gloo"]), ("gloo:bcube", 6))
        self.assertEqual(self.results.best(KEY, ["gloo", "mpich"]), ("mpich", 4))
        self.assertEqual(self.results.best(KEY, ["banyan"]), (None, None))

    def test_a_wrong_round_is_not_forgotten(self):
        self.results.add(KEY, "mpich", 4, wrong=7)
        self.results.add(KEY, "mpich", 4, wrong=0)
        self.assertEqual(self.results.wrong[KEY]["mpich"], 7)

    def test_the_ratio_is_to_the_best_of_all_peers(self):
        self.results.add(KEY, "banyan:ordinary", 2, wrong=0)
        text, ratios = compare.table(self.results, 2, "allreduce")
        self.assertEqual(ratios, {"ordinary": [2], "registered": []})
        row = [cell.strip() for cell in text.splitlines()[4].split("|")[1:-1]]
        self.assertEqual(row, ["4 KiB", "4.00", "mpich", "6.00", "2.00", "2.00", "-", "-", "-", "-", "0"])

    def test_a_root_that_changes_is_a_collective_of_its_own(self):
        line = contest.parse_line("banyan:ordinary,reduce-roots,4096,2.0,0")
        self.assertEqual(line, ("banyan:ordinary", "reduce-roots", 4096, 2.0, 0))

    def test_the_build_beside_is_compared_row_by_row(self):
        slower = contest.Key(ranks=4, collective="barrier", bytes=0)
        for key, own, before in ((KEY, 2, 4), (slower, 4, 2)):
            self.results.add(key, "banyan:ordinary", own, wrong=0)
            self.results.add(key, "beside:ordinary", before, wrong=0)
        row = [cell.strip() for cell in compare.beside_table(self.results).splitlines()[2].split("|")[1:-1]]
        self.assertEqual(row, ["banyan:ordinary", "2", "1.000", "2.000", "barrier of 0 B, 4 ranks"])

    def test_geometric_mean(self):
        self.assertAlmostEqual(contest.geometric_mean([1, 4, 16]), 4)
        self.assertIsNone(contest.geometric_mean([]))


class Text(unittest.TestCase):
    def test_sizes_have_the_unit_that_divides_them(self):
        self.assertEqual([contest.size_text(size) for size in (0, 4, 1536, 8192, 256 << 20, 1 << 30)],
                         ["0 B", "4 B", "1536 B", "8 KiB", "256 MiB", "1 GiB"])

    def test_times_keep_three_digits(self):
        self.assertEqual([contest.time_text(us) for us in (0.1234, 1.234, 12.34, 123.4, 12345.6, None)],
                         ["0.123", "1.23", "12.3", "123", "12,346", "-"])

    def test_a_plot_shows_bandwidth_by_size(self):
        script = contest.plot_script("t", {"banyan:ordinary": [(2000, 1.0), (1000, 1.0)]})
        self.assertIn("1000 1\n2000 2\n", script)


class Rounds(unittest.TestCase):
    def test_each_round_begins_with_another_launch(self):
        order = []
        contest.alternate(["a", "b", "c"], 4, lambda launch, number: order.append(f"{launch}{number}"))
        self.assertEqual(order, ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2", "a3", "b3", "c3"])


class Launches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.results = contest.Results()

    def test_lines_are_counted_under_the_name_of_the_launch(self):
        launch = fake_peer(self.folder, 'test -d "$2" && echo "peer:x,allreduce,4096,1.5,0"')
        self.assertEqual(contest.run_launch(launch, 2, [], 60, self.results), 1)
        self.assertEqual(self.results.times, {KEY: {"renamed:x": [1.5]}})
        self.assertEqual(self.results.failures, [])

    def test_a_failing_peer_is_a_failure_with_its_words(self):
        launch = fake_peer(self.folder, "echo 'peer,allreduce,4096,1.5,0'; echo sorry >&2; exit 3")
        self.assertEqual(contest.run_launch(launch, 2, [], 60, self.results), 1)
        self.assertEqual(self.results.failures, ["renamed, 2 ranks: ended with status 3 after 1 lines: sorry"])

    def test_a_silent_peer_is_a_failure(self):
        contest.run_launch(fake_peer(self.folder, "exit 0"), 2, [], 60, self.results)
        self.assertEqual(len(self.results.failures), 1)

    def test_a_peer_that_hangs_is_ended_with_its_children(self):
        begin = time.monotonic()
        contest.run_launch(fake_peer(self.folder, "sleep 600 & wait"), 2, [], 0.2, self.results)
        self.assertLess(time.monotonic() - begin, 60)  # its child would have held the pipe open
        self.assertIn("took longer than 0 s after 0 lines", self.results.failures[0])


class Contestants(unittest.TestCase):
    def test_each_peer_that_counts_as_mpi_is_one_that_is_launched(self):
        launched = {launch.name for launch in compare.all_launches(pathlib.Path("/build"), more=True)}
        self.assertLessEqual(set(compare.MPI), launched)
        self.assertEqual(launched - set(compare.MPI), {"gloo", "banyan", "floor"})


if __name__ == "__main__":
    unittest.main()
