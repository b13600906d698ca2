"""What choice_lab.py reads from auto's table and concludes. Run: python3 -m unittest choice_lab_test"""

import unittest

try:
    import choice_lab
except ImportError:  # there is no PyTorch here
    choice_lab = None

REPORT = """a step, medians of 8; 0.84 MB of gradients in 1 bucket, 8 ranks
    code  loss of a value  predicted, ms  measured, ms
    none                -         325.00        325.00
    int8            0.7 %         120.00        122.95
int8 where it gains     0.7 %     110.00             -
int8: 2.64 times as quick as without
"""


@unittest.skipIf(choice_lab is None, "there is no PyTorch here")
class Judgement(unittest.TestCase):
    def seconds(self, dense, int8, auto):
        return {"banyan": dense, "banyan:coded:int8": int8, "banyan:coded:auto": auto}

    def test_predictions_are_read_from_the_report(self):
        self.assertEqual(choice_lab.predictions_of(REPORT),
                         {"none": 325.0, "int8": 120.0, "int8 where it gains": 110.0})

    def test_a_choice_is_right_within_its_limits(self):
        row = choice_lab.judge(self.seconds(0.325, 0.120, 0.1259), REPORT)
        self.assertTrue(choice_lab.is_right(row))
        self.assertEqual(row["chosen"], "int8: 2.64 times as quick as without")
        self.assertEqual(row["best"], "banyan:coded:int8")
        self.assertAlmostEqual(row["off"]["int8"], 0)
        self.assertEqual(set(row["off"]), {"none", "int8"})

    def test_a_choice_is_wrong_beyond_them(self):
        self.assertFalse(choice_lab.is_right(choice_lab.judge(self.seconds(0.325, 0.120, 0.127), REPORT)))
        self.assertFalse(choice_lab.is_right(choice_lab.judge(self.seconds(0.1, 0.120, 0.104), REPORT)))
        self.assertAlmostEqual(choice_lab.judge(self.seconds(0.325, 0.100, 0.1), REPORT)["off"]["int8"], 0.2)

    def test_codes_between_boxes_are_those_of_the_series(self):
        report = REPORT.replace("int8: 2.64", "    int8 between boxes            0.7 %         100.00        101.00\n"
                                              "int8 between boxes: 3.25")
        seconds = {**self.seconds(0.325, 0.120, 0.105), "banyan:coded:int8+boxes:4": 0.102}
        row = choice_lab.judge(seconds, report)
        self.assertTrue(choice_lab.is_right(row))
        self.assertEqual(row["best"], "banyan:coded:int8+boxes:4")
        self.assertAlmostEqual(row["off"]["int8 between boxes"], 100 / 102 - 1)
        self.assertEqual(row["own_behind_best"], 0)

    def test_what_auto_took_is_judged_by_its_own_series_too(self):
        own = lambda report: choice_lab.judge(self.seconds(0.1, 0.120, 0.104), report)["own_behind_best"]
        self.assertAlmostEqual(own(REPORT), 0.2)
        self.assertEqual(own(REPORT.replace("int8: 2.64 times as quick as without", "no code: int8 was tried")), 0)
        self.assertIsNone(own(REPORT.replace("int8: 2.64", "int8 where it gains: 2.64")))


if __name__ == "__main__":
    unittest.main()
