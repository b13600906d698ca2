"""Codes that are chosen from measured steps: banyan_torch.compress(ddp, "auto").

With steps=2 the code is chosen before the fifth step, tried from then on, and judged before the eighth.
"""

import math
import re
import time

import torch
import torch.distributed as dist

import banyan_torch
from models import batch_of, loss_of, made, Net, parallel, sgd, train, trained_serially
from ranks import not_by_gloo, on_ranks
from test_compress import CompressTest

kChosen, kJudged = 4, 7  # steps that are over by then
kAnyGain = {"steps": 2, "trials": 1, "measurements": 1, "quiet": 1, "least_gain": -1e6}


@not_by_gloo("has no codes")
class AutoTest(CompressTest):
    def auto(self, model, scheme=kAnyGain, **options):
        return self.compressed(model, "auto", scheme=scheme, **options)

    def steps(self, replica, compression, optimizer, numbers, wait=0.0):
        """Steps in which nothing may be lost."""
        for number in numbers:
            time.sleep(wait)
            self.step(replica, compression, optimizer, batch_of(self.rank, number))
            self.expect_agreement(replica.module)

    def kept(self, compression):
        return sum(compression.residual_norms().values())


class Choice(AutoTest):
    @on_ranks(2, 3)
    def test_a_code_that_gains_is_kept_and_nothing_is_lost(self):
        replica, compression = self.auto(made(Net, width=65))
        optimizer = sgd(replica.parameters())
        self.assertIn("being measured", compression.report())
        self.steps(replica, compression, optimizer, range(kChosen))
        self.assertEqual(self.kept(compression), 0)
        self.steps(replica, compression, optimizer, range(kChosen, kJudged))
        self.assertIn("being tried", compression.report())
        self.assertGreater(self.kept(compression), 0)
        self.steps(replica, compression, optimizer, range(kJudged, kJudged + 3))
        self.assertGreater(self.kept(compression), 0)
        report = compression.report()
        self.assertRegex(report, r"(?m)^\S.*: \d+\.\d\d times as quick as without$")
        self.assertRegex(report, r"none +- +\d+\.\d\d +\d+\.\d\d\n")
        self.assertNotIn("int4", report)

    @on_ranks(2, 3)
    def test_a_code_that_does_not_gain_is_given_up_and_what_it_lost_is_sent(self):
        replica, compression = self.auto(made(Net, width=65), scheme={**kAnyGain, "least_gain": -0.9})
        optimizer = sgd(replica.parameters())
        self.steps(replica, compression, optimizer, range(kChosen + 1))
        self.steps(replica, compression, optimizer, range(kChosen + 1, kJudged), wait=1.0)
        self.assertGreater(self.kept(compression), 0)
        with self.case("what is not finite takes nothing along"):
            before = self.residuals(compression, replica.module)
            poison = batch_of(self.rank, 90)
            if self.rank == 1:
                poison = (poison[0] * math.inf, poison[1])
            optimizer.zero_grad()
            loss_of(replica, poison).backward()
            self.assertIn("was tried and did not gain", compression.report())
            for name, parameter in replica.module.named_parameters():
                lost = parameter.grad.isnan()
                kept = self.residuals(compression, replica.module)[name]
                self.assertTrue(lost.any(), name)
                self.same(kept[lost], before[name][lost])
        self.steps(replica, compression, optimizer, range(kJudged + 1, kJudged + 3))
        self.assertEqual(self.kept(compression), 0)

    @on_ranks(2, 3)
    def test_another_code_is_tried_where_the_first_takes_longer_than_predicted(self):
        replica, compression = self.auto(made(Net, width=65), scheme={**kAnyGain, "trials": 2, "least_gain": -1.9})
        optimizer = sgd(replica.parameters())
        self.steps(replica, compression, optimizer, range(kChosen + 1), wait=0.1)
        first = re.search(r"(?m)^(.*) is being tried$", compression.report()).group(1)
        self.steps(replica, compression, optimizer, range(kChosen + 1, kJudged), wait=1.0)
        self.steps(replica, compression, optimizer, [kJudged], wait=0.1)
        second = re.search(r"(?m)^(.*) is being tried$", compression.report()).group(1)
        self.assertNotEqual(first, second)
        self.steps(replica, compression, optimizer, range(kJudged + 1, kJudged + 4), wait=0.1)
        report = compression.report()
        self.assertRegex(report, rf"(?m)^{second}: \d+\.\d\d times as quick as without$")
        for name in ("none", first, second):
            self.assertRegex(report, rf"(?m)^ *{name} +\S+( %)? +\d+\.\d\d +\d+\.\d\d$")
        self.assertGreater(self.kept(compression), 0)

    @on_ranks(2)
    def test_what_is_close_is_measured_again_and_no_code_too(self):
        replica, compression = self.auto(made(Net, width=65), scheme={**kAnyGain, "measurements": 2})
        optimizer = sgd(replica.parameters())
        self.steps(replica, compression, optimizer, range(kJudged), wait=0.8)  # which hides what differs
        self.assertGreater(self.kept(compression), 0)
        code = re.search(r"(?m)^(.*) is being tried$", compression.report()).group(1)
        again = kJudged - kChosen
        self.steps(replica, compression, optimizer, range(kJudged, kJudged + again), wait=0.8)
        self.assertRegex(compression.report(), r"(?m)^none is being tried$")
        self.assertEqual(self.kept(compression), 0)
        self.steps(replica, compression, optimizer, range(kJudged + again, kJudged + 2 * again), wait=0.8)
        self.assertRegex(compression.report(), rf"(?m)^{code} is being tried$")
        self.steps(replica, compression, optimizer, range(kJudged + 2 * again, kJudged + 2 * again + 2))
        self.assertRegex(compression.report(), rf"(?m)^{code}: \d+\.\d\d times as quick as without$")
        self.assertGreater(self.kept(compression), 0)

    @on_ranks(2)
    def test_most_loss_and_least_gain_are_obeyed(self):
        for scheme, codes in (({"most_loss": 0}, []), ({"most_loss": 1}, ["int4", "mxfp4", "sign"]),
                              ({"least_gain": 0.99}, ["int8"])):
            with self.case(scheme):
                replica, compression = self.auto(made(Net), scheme={**kAnyGain, **scheme})
                optimizer = sgd(replica.parameters())
                self.steps(replica, compression, optimizer, range(kChosen + 1))
                report = compression.report()
                for code in codes:
                    self.assertIn(code, report)
                if "most_loss" not in scheme or not codes:
                    self.assertIn("no code", report)
                    self.assertEqual(self.kept(compression), 0)

    @on_ranks(2)
    def test_what_is_not_chosen_is_trained_as_without(self):
        expected = parallel(made(Net), process_group=self.tcp())
        replica, _ = self.auto(made(Net), scheme={**kAnyGain, "least_gain": 0.99})
        for model in (replica, expected):
            train(model, sgd(model.parameters()), [batch_of(self.rank, step) for step in range(8)])
        self.same_parameters(replica.module, expected.module)

    @on_ranks(2)
    def test_one_host_and_one_rank_measure_nothing(self):
        replica = parallel(made(Net))
        compression = banyan_torch.compress(replica, "auto", quiet=1)
        self.assertIn("memory of one host", compression.report())
        train(replica, sgd(replica.parameters()), self.batches())
        self.assertEqual(self.kept(compression), 0)


class Modes(AutoTest):
    @on_ranks(2, 3)
    def test_ranks_that_have_finished_choose_with_the_others(self):
        """Rank 0 finishes before anything is chosen; then what it keeps waits."""
        replica, compression = self.auto(made(Net))
        batches = 2 + 10 * self.rank
        with replica.join():
            train(replica, sgd(replica.parameters()), [batch_of(self.rank, step) for step in range(batches)])
        expected = trained_serially(made(Net), self.world, 2 + 10 * (self.world - 1),
                                    ranks_of_step=lambda step: [r for r in range(self.world) if step < 2 + 10 * r])
        self.same_parameters(replica.module, expected, 0.05)
        self.expect_agreement(replica.module)
        self.assertIn("times as quick", compression.report())

    @on_ranks(2)
    def test_accumulated_steps_count_as_one(self):
        replica, compression = self.auto(made(Net))
        optimizer = sgd(replica.parameters())
        for number in range(kJudged + 1):
            self.assertNotIn("times as quick", compression.report())
            with replica.no_sync():
                loss_of(replica, batch_of(self.rank, 2 * number)).backward()
            loss_of(replica, batch_of(self.rank, 2 * number + 1)).backward()
            optimizer.step()
            optimizer.zero_grad()
        self.assertIn("times as quick", compression.report())
        self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_many_buckets_and_the_hook_in_python(self):
        replica = parallel(made(Net, width=31), small_buckets=True, process_group=self.tcp())
        compression = banyan_torch.Compression(replica, "auto", **kAnyGain)
        replica.register_comm_hook(compression, banyan_torch.compress_hook)
        optimizer = sgd(replica.parameters())
        self.steps(replica, compression, optimizer, range(kJudged + 2))
        self.assertRegex(compression.report(), r"in ([2-9]|\d\d) buckets")
        self.assertGreater(self.kept(compression), 0)


class State(AutoTest):
    @on_ranks(2)
    def test_who_goes_on_sends_what_was_sent_before(self):
        replica, compression = self.auto(made(Net, width=65))
        optimizer = sgd(replica.parameters())
        self.assertEqual(set(compression.state_dict()), {"codec", "residuals"})
        self.steps(replica, compression, optimizer, range(kJudged + 1))
        state = compression.state_dict()
        self.assertGreater(max(int(code) for code in state["codes"].values()), 0)

        other, restored = self.auto(made(Net, width=65))
        other.module.load_state_dict(replica.module.state_dict())
        restored.load_state_dict(state)
        self.assertIn("before the state was saved", restored.report())
        self.assertEqual(restored.state_dict()["codes"], state["codes"])
        before = self.kept(restored)
        self.assertGreater(before, 0)
        self.steps(other, restored, sgd(other.parameters()), range(20, 23))
        self.assertNotEqual(self.kept(restored), before)

    @on_ranks(1)
    def test_wrong_states_and_options_are_refused(self):
        replica, compression = self.auto(made(Net))
        with self.assertRaisesRegex(Exception, "no known code for"):
            name = next(iter(dict(replica.module.named_parameters())))
            compression.load_state_dict({"codec": "auto", "residuals": {}, "codes": {name: torch.tensor(99)}})
        for options, words in (({"steps": 0}, "steps is to be 1"), ({"trials": 0}, "trials is to be 1"),
                               ({"measurements": 0}, "measurements is to be 1"), ({"stepz": 3}, "no option 'stepz'"),
                               ({"most_loss": -1}, "most_loss"), ({"least_gain": 1}, "least_gain")):
            with self.case(options), self.assertRaisesRegex(Exception, words):
                banyan_torch.Compression(made(Net), "auto", group=dist.group.WORLD, **options)
        with self.assertRaisesRegex(Exception, "'automatic' is not 'auto'"):
            banyan_torch.Compression(made(Net), "automatic", group=dist.group.WORLD)


class Boxes(AutoTest):
    kAnyGain = {**kAnyGain, "box_ranks": 2}

    @on_ranks(4, 6)
    def test_codes_between_boxes_are_tried_as_well(self):
        """Which is quicker here nobody knows: over TCP a box is as slow as what is between boxes."""
        replica, compression = self.auto(made(Net, width=65), scheme=self.kAnyGain)
        optimizer = sgd(replica.parameters())
        self.steps(replica, compression, optimizer, range(kChosen))
        descriptors = self.event_descriptors()
        self.steps(replica, compression, optimizer, range(kChosen, kJudged + 2))
        report = compression.report()
        self.assertIn(f"{self.world} ranks in boxes of 2\n", report)
        self.assertRegex(report, r"(?m)^ *int8 +0\.7 % +\d+\.\d\d ")
        self.assertRegex(report, r"(?m)^ *int8 between boxes +0\.7 % +\d+\.\d\d ")
        self.assertNotIn("int4", report)
        is_chosen = report.splitlines()[-1].split(":")[0].endswith("between boxes")
        for code in compression.state_dict()["codes"].values():
            self.assertEqual(int(code) // 256, 2 if is_chosen else 0)
        # The groups of boxes go where none uses them.
        if is_chosen:
            self.assertGreater(self.event_descriptors(), descriptors)
        else:
            self.assertEqual(self.event_descriptors(expected=descriptors), descriptors)

    @on_ranks(4)
    def test_without_the_option_ranks_of_one_host_are_no_boxes_and_0_forbids_them(self):
        for scheme in (kAnyGain, {**kAnyGain, "box_ranks": 0}):
            replica, compression = self.auto(made(Net), scheme=scheme)
            self.steps(replica, compression, sgd(replica.parameters()), range(kChosen + 1))
            self.assertNotIn("boxes", compression.report())

    @on_ranks(4, init=False)
    def test_hosts_of_as_many_ranks_are_boxes(self):
        with self.on_hosts([0, 0, 1, 1]):
            replica = parallel(made(Net))
            compression = banyan_torch.compress(replica, "auto", **kAnyGain)
            self.steps(replica, compression, sgd(replica.parameters()), range(kJudged + 2))
            self.assertIn("4 ranks in boxes of 2\n", compression.report())
            self.assertIn("int8 between boxes", compression.report())

    @on_ranks(4, init=False)
    def test_other_hosts_are_none(self):
        for hosts in ([0, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]):
            with self.case(hosts), self.on_hosts(hosts):
                replica = parallel(made(Net))
                compression = banyan_torch.compress(replica, "auto", **kAnyGain)
                self.steps(replica, compression, sgd(replica.parameters()), range(kChosen + 1))
                self.assertNotIn("boxes", compression.report())

    @on_ranks(4)
    def test_who_goes_on_sends_between_boxes_what_was_sent_before(self):
        model, optimizer = made(Net, width=65), lambda replica: sgd(replica.parameters())
        fixed, state = self.compressed(model, "int8", scheme={"box_ranks": 2})
        self.steps(fixed, state, optimizer(fixed), range(2))
        names = [name for name, _ in model.named_parameters()]
        int8_between_boxes = torch.tensor(5 + 256 * 2)
        saved = {"codec": "auto", "residuals": state.state_dict()["residuals"],
                 "codes": {name: int8_between_boxes for name in names}}
        replica, compression = self.auto(fixed.module)
        compression.load_state_dict(saved)
        self.assertEqual(compression.state_dict()["codes"], saved["codes"])
        # Both go on alike, with the same losses.
        other, expected = self.compressed(fixed.module, "int8", scheme={"box_ranks": 2})
        expected.load_state_dict({"codec": "int8", "residuals": saved["residuals"]})
        for either, its in ((replica, compression), (other, expected)):
            self.steps(either, its, optimizer(either), range(2, 5))
        self.same_parameters(replica.module, other.module, 0.0)
        for name, values in self.residuals(expected, other.module).items():
            self.same(self.residuals(compression, replica.module)[name], values)

        with self.case("back to none"):
            last = compression.state_dict()
            self.assertGreater(float(self.summed({"all": torch.tensor(self.kept(compression))})["all"]), 0)
            compression.load_state_dict({**last, "codes": {name: torch.tensor(0) for name in names}})
            self.steps(replica, compression, optimizer(replica), range(5, 7))
            self.assertEqual(self.kept(compression), 0)

    @on_ranks(4)
    def test_boxes_that_cannot_be_are_refused(self):
        replica, compression = self.auto(made(Net))
        name = next(iter(dict(replica.module.named_parameters())))
        with self.assertRaisesRegex(Exception, "box_ranks is 3 in a group of 4"):
            compression.load_state_dict({"codec": "auto", "residuals": {}, "codes": {name: torch.tensor(5 + 256 * 3)}})
        with self.assertRaisesRegex(ValueError, "^box_ranks is 3 in a group of 4: [^\n]*$"):
            self.auto(made(Net), scheme={"box_ranks": 3})
