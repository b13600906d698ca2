"""What price.py makes of figures, and that every file of bench/results keeps its form. Run by ctest, or:
python3 -m unittest price_test"""

import json
import pathlib
import tempfile
import unittest

import contest
import price

FOLDER = pathlib.Path(__file__).resolve().parent / "results"
MACHINE = {"processor": "P", "processor_numbers": "family 6", "cores": 2, "kernel": "6", "load_average_before": 0.1,
           "commit": "abc", "date": "2026-11-30"}


def results_of(figures):
    results = contest.Results()
    for (collective, size, series), microseconds in figures.items():
        results.add(contest.Key(2, collective, size), series, microseconds, wrong=0)
    return results


class Price(unittest.TestCase):
    def test_a_row_has_both_builds_and_their_ratio(self):
        results = results_of({("broadcast", 8, "banyan:ordinary"): 3, ("broadcast", 8, "beside:ordinary"): 2,
                              ("allreduce", 4, "banyan:registered"): 1, ("allreduce", 4, "beside:registered"): 2,
                              ("allreduce", 4, "banyan:in-place"): 1, ("allreduce", 4, "beside:in-place"): 1,
                              ("allreduce", 4, "banyan:ordinary"): 1})
        self.assertEqual(price.rows_of(results, "tcp"), [
            {"what": "allreduce, registered buffers, tcp", "bytes": 4, "us": 1, "beside_us": 2, "times_beside": 0.5},
            {"what": "broadcast, ordinary buffers, tcp", "bytes": 8, "us": 3, "beside_us": 2, "times_beside": 1.5}])

    def test_means_are_of_all_rows_and_of_each_kind(self):
        rows = [{"what": "allreduce, ordinary buffers, tcp", "times_beside": 1},
                {"what": "broadcast, ordinary buffers, tcp", "times_beside": 4},
                {"what": "broadcast, ordinary buffers, shm", "times_beside": 2}]
        self.assertEqual(price.means_of(rows), [
            {"what": "geometric mean", "rows": 3, "times_beside": 2},
            {"what": "geometric mean, ordinary buffers, tcp", "rows": 2, "times_beside": 2},
            {"what": "geometric mean, ordinary buffers, shm", "rows": 1, "times_beside": 2}])

    def test_what_is_written_has_the_form_of_bench_results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "price.json")
            contest.write_results(path, "t", MACHINE, "price.py", [{"what": "a", "us": 1.5}, {"what": "b", "us": 2}])
            self.check(path)
            self.assertEqual(json.loads(path.read_text())["rows"], [{"what": "a", "us": 1.5}, {"what": "b", "us": 2}])

    def test_every_file_of_bench_results_has_it(self):
        self.assertTrue(list(FOLDER.glob("*.json")))
        for path in sorted(FOLDER.glob("*.json")):
            with self.subTest(path.name):
                self.check(path)

    def test_all_108_rows_are_kept(self):
        rows = json.loads((FOLDER / "price.json").read_text(encoding="utf-8"))["rows"]
        self.assertEqual(len({(row["what"], row["bytes"]) for row in rows if "bytes" in row}), 108)

    def check(self, path):
        document = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(document["banyan"], "results/1")
        for key in ("topic", "machine", "commit", "how"):
            self.assertTrue(document[key], key)
        self.assertLessEqual(set(document), {"banyan", "topic", "machine", "commit", "date", "how", "rows"})
        self.assertTrue(document["rows"])
        for row in document["rows"]:
            self.assertTrue(row["what"])
            self.assertGreater(len(row), 1, row)
            for key, value in row.items():
                self.assertIsInstance(value, (int, float, str), key)


if __name__ == "__main__":
    unittest.main()
