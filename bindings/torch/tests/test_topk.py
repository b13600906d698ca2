"""The largest values of gradients: banyan_torch.compress(ddp, "topk:10%")."""

import copy
import math
import os
import signal
import time

import torch
import torch.distributed as dist

import banyan_torch
from models import batch_of, loss_of, made, Net, parallel, sgd, train
from ranks import not_by_gloo, on_ranks, run_on_ranks
from test_compress import CompressTest

kNoticed = 10.0  # seconds in which all ranks have to learn of a death; the timeout of calls is longer


def lose_a_rank(job):
    """What the others' backward pass says when rank 1 is killed, after how long, and whether what was kept stayed."""
    group = dist.new_group(pg_options=banyan_torch.Options(transport="tcp"))
    replica = parallel(made(Net), process_group=group)
    compression = banyan_torch.compress(replica, "topk:10%", momentum=0.5)
    loss_of(replica, batch_of(job.rank, 0)).backward()
    before = copy.deepcopy(compression.state_dict())
    dist.barrier()
    if job.rank == 1:
        job.mark("death", time.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        loss_of(replica, batch_of(job.rank, 1)).backward()
    except RuntimeError as error:
        seconds, after = time.monotonic() - float(job.await_mark("death")), compression.state_dict()
        stayed = all(torch.equal(values, after[kind][name]) for kind in ("residuals", "momenta")
                     for name, values in before[kind].items())
        return str(error), seconds, stayed


@not_by_gloo("has no codes")
class TopK(CompressTest):
    """The largest values of a bucket; the model is in one."""

    def all_of(self, tensors):
        return torch.cat([tensors[name].flatten().double() for name in sorted(tensors)])

    def averages(self, model):
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    @on_ranks(1, 2, 4)
    def test_the_largest_are_sent_and_the_others_stay(self):
        replica, compression = self.compressed(made(Net, width=31), "topk:3%")
        module, optimizer = replica.module, sgd(replica.parameters())
        count = sum(p.numel() for p in module.parameters())
        for step in range(5):
            batch = batch_of(self.rank, step)
            before, after = self.step(replica, compression, optimizer, batch)
            # Gradients are of the parameters before the step; a step of the optimizer has changed these since.
            left = self.all_of(after)
            self.assertGreaterEqual(int((left == 0).sum()), round(0.03 * count))
            sent = self.all_of(self.averages(module)) != 0
            self.assertLessEqual(int(sent.sum()), self.world * round(0.03 * count))
            self.assertGreaterEqual(int(sent.sum()), round(0.03 * count) - 2)

    @on_ranks(2)
    def test_what_is_sent_is_not_smaller_than_what_stays(self):
        replica, compression = self.compressed(made(Net), "topk:10%")
        for step in range(3):
            before = self.residuals(compression, replica.module)
            gradients = self.own_gradients(replica.module, batch_of(self.rank, step))
            replica.zero_grad()
            loss_of(replica, batch_of(self.rank, step)).backward()
            sums = self.all_of(gradients) + self.all_of(before)
            left = self.all_of(self.residuals(compression, replica.module))
            is_sent = left == 0
            self.assertEqual(int((is_sent & (sums != 0)).sum()), round(0.1 * len(sums)))
            self.assertGreaterEqual(float(sums[is_sent].abs().max()), float(left.abs().max()))

    @on_ranks(1, 2)
    def test_all_of_them_are_the_average(self):
        batches = [batch_of(self.rank, step) for step in range(3)]
        replica, _ = self.compressed(made(Net), "topk:100%")
        expected = parallel(made(Net), process_group=self.tcp())
        for model in (replica, expected):
            train(model, sgd(model.parameters()), batches)
        self.same_parameters(replica.module, expected.module, 1e-5)

    @on_ranks(2, 3)
    def test_momentum_is_kept_until_it_is_sent(self):
        for codec, masking in (("topk:10%", 1), ("topk:10%+int8", 1), ("topk:10%", 0)):
            with self.case(codec, masking):
                replica, compression = self.compressed(made(Net), codec, scheme={"momentum": 0.5, "masking": masking})
                for step in range(4):
                    before = compression.state_dict()
                    zeros = {name: torch.zeros_like(p) for name, p in replica.module.named_parameters()}
                    kept = {**zeros, **before["residuals"]}
                    gradients = self.own_gradients(replica.module, batch_of(self.rank, step))
                    momenta = {name: 0.5 * values + gradients[name]
                               for name, values in {**zeros, **before["momenta"]}.items()}
                    replica.zero_grad()
                    loss_of(replica, batch_of(self.rank, step)).backward()
                    after = compression.state_dict()
                    self.expect_nothing_lost(momenta, kept, self.averages(replica.module), after["residuals"])
                    cleared = 0
                    for name, values in after["momenta"].items():
                        is_cleared = values == 0
                        self.same(values[~is_cleared], momenta[name][~is_cleared], 1e-6)
                        cleared += int((is_cleared & (momenta[name] != 0)).sum())
                    sent = round(0.1 * sum(values.numel() for values in zeros.values()))
                    self.assertEqual(cleared, sent if masking else 0)

    @on_ranks(2)
    def test_clipping_bounds_what_a_step_adds(self):
        replica, compression = self.compressed(made(Net), "topk:10%", scheme={"momentum": 0.5, "clip": 1e-3})
        (1000 * loss_of(replica, batch_of(self.rank, 0))).backward()
        added = math.sqrt(sum(norm ** 2 for norm in compression.residual_norms().values()))
        self.assertLessEqual(added, 1e-3 / math.sqrt(2) * 1.0001)
        self.assertGreater(added, 0)

    @on_ranks(2, 3)
    def test_what_is_not_finite_comes_out_everywhere_and_does_not_stay(self):
        for codec, momentum in (("topk:10%", 0.0), ("topk:10%+int8", 0.0), ("topk:10%", 0.5)):
            with self.case(codec):
                replica, compression = self.compressed(made(Net), codec, scheme={"momentum": momentum})
                loss_of(replica, batch_of(self.rank, 0)).backward()
                before = compression.state_dict()
                replica.zero_grad()
                wrong = (math.nan, math.inf)[self.rank % 2] if self.rank == self.world - 1 else 1.0
                (loss_of(replica, batch_of(self.rank, 1)) * wrong).backward()
                self.assertFalse(bool(self.all_of(self.averages(replica.module)).isfinite().all()))
                after = compression.state_dict()
                for kind in set(before) - {"codec"}:
                    for name, values in before[kind].items():
                        self.same(after[kind][name], values)
                replica.zero_grad()
                loss_of(replica, batch_of(self.rank, 2)).backward()
                self.assertTrue(bool(self.all_of(self.averages(replica.module)).isfinite().all()))
                self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_it_works_through_shared_memory(self):
        replica = parallel(made(Net))
        compression = banyan_torch.compress(replica, "topk:5%")
        for step in range(3):
            self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, step))
        self.assertGreater(sum(compression.residual_norms().values()), 0)

    @on_ranks(2, 3)
    def test_no_bucket_waits_for_another(self):
        self.expect_no_bucket_to_wait("topk:10%")

    @on_ranks(2, leaves=False)
    def test_residuals_are_to_be_had_after_a_failed_call(self):
        self.expect_residuals_after_a_failed_call("topk:10%", momentum=0.5)

    def test_a_dead_rank_is_named(self):
        for outcome in run_on_ranks(3, lose_a_rank):
            if outcome.rank == 1:
                self.assertEqual(outcome.how, "died", outcome.text)
                continue
            self.assertEqual(outcome.how, "returned", outcome.text)
            words, seconds, have_stayed = outcome.value
            self.assertRegex(words, "rank 1 is dead")
            self.assertLess(seconds, kNoticed)
            self.assertTrue(have_stayed, f"what rank {outcome.rank} kept")

    @on_ranks(2)
    def test_training_goes_on_from_a_state(self):
        batches = [batch_of(self.rank, step) for step in range(6)]
        states, results = [], []
        for _ in range(2):
            replica, compression = self.compressed(made(Net), "topk:10%", scheme={"momentum": 0.5})
            optimizer = sgd(replica.parameters())
            train(replica, optimizer, batches[:3])
            if states:
                compression.scale_(0)
                compression.load_state_dict(states[0])
            states.append(copy.deepcopy(compression.state_dict()))
            train(replica, optimizer, batches[3:])
            results.append(replica.module)
        self.same_parameters(results[0], results[1])

    @on_ranks(2)
    def test_the_share_falls_during_the_warm_up(self):
        model = made(Net, width=31)
        count = sum(p.numel() for p in model.parameters())
        expected = [max(1, round(share * count)) for share in (0.25, 0.25 / 5, 0.01, 0.01)]  # 25 % to 1 % in two steps
        states = []
        for begin in range(3):  # in one go, and going on from a state of after the first and the second step
            replica, compression = self.compressed(model, "topk:1%", scheme={"warm_up": 2})
            if begin:
                compression.load_state_dict(states[begin])
            for step in range(begin, 4):
                if not begin:
                    states.append(copy.deepcopy(compression.state_dict()))
                replica.zero_grad()
                loss_of(replica, batch_of(self.rank, step)).backward()
                kept = self.all_of(self.residuals(compression, replica.module))
                self.assertEqual(int((kept == 0).sum()), expected[step], f"step {step} from {begin}")
            self.assertEqual({int(steps) for steps in compression.state_dict()["steps"].values()}, {4})

    @on_ranks(2)
    def test_a_warm_up_loses_nothing_when_buckets_change(self):
        replica, compression = self.compressed(made(Net, width=31), "topk:1%+int8", scheme={"warm_up": 3},
                                               small_buckets=True)
        optimizer = sgd(replica.parameters())
        for step in range(5):
            self.step(replica, compression, optimizer, batch_of(self.rank, step))
        self.assertEqual({int(steps) for steps in compression.state_dict()["steps"].values()}, {5})

    @on_ranks(1)
    def test_wrong_warm_ups_are_refused(self):
        replica, compression = self.compressed(made(Net), "topk:1%", scheme={"warm_up": 3})
        with self.assertRaisesRegex(ValueError, "^warm_up is to be a whole number"):
            banyan_torch.Compression(replica, "topk:1%", warm_up=-1)
        state = compression.state_dict()
        for steps, words in (({"nobody": torch.tensor(1)}, "^the model has no parameter 'nobody'"),
                             ({next(iter(state["steps"])): torch.ones(2)}, "are 2 values instead of 1")):
            with self.assertRaisesRegex(RuntimeError, words):
                compression.load_state_dict({**state, "steps": steps})
        with self.assertRaisesRegex(RuntimeError, "keeps no 'steps'"):
            banyan_torch.Compression(replica, "topk:2%").load_state_dict({**state, "codec": "topk:2%"})
