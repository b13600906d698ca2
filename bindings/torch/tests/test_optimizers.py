"""What works together with DistributedDataParallel: uneven inputs, sharded optimizers, averaging of models."""

import copy

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import post_localSGD_hook, PostLocalSGDState
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer

from models import batch_of, loss_of, made, Net, parallel, sgd, train, trained_serially
from ranks import on_ranks
from test_ddp import kSteps, ModelTest


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


class UnevenInputs(ModelTest):
    def batches_of(self, rank):
        return 3 + 2 * rank

    def active(self, step):
        return [rank for rank in range(self.world) if step < self.batches_of(rank)]

    def train_own(self, model, optimizer):
        train(model, optimizer, [batch_of(self.rank, step) for step in range(self.batches_of(self.rank))])

    def expected(self, model):
        return trained_serially(model, self.world, self.batches_of(self.world - 1), ranks_of_step=self.active)

    @on_ranks(1, 2, 3)
    def test_ranks_that_have_finished_contribute_zeros(self):
        model = made(Net)
        replica = parallel(model, small_buckets=True)
        with replica.join():
            self.train_own(replica, sgd(replica.parameters()))
        self.same_parameters(replica.module, self.expected(model))
        self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_all_may_be_told_when_the_first_has_finished(self):
        replica = parallel(made(Net))
        steps = 0
        with self.assertRaisesRegex(RuntimeError, "(?i)exhaust"):
            with replica.join(throw_on_early_termination=True):
                for step in range(self.batches_of(self.rank)):
                    loss_of(replica, batch_of(self.rank, step)).backward()
                    steps += 1
        self.assertEqual(steps, self.batches_of(0))

    @on_ranks(2, 3)
    def test_a_sharded_optimizer_joins_too(self):
        """Compared with Gloo: who has finished steps with its last gradients, which no serial computation does."""
        results = []
        for group in (dist.new_group(), dist.new_group(backend="gloo")):
            replica = parallel(made(Net), process_group=group)
            optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.SGD, process_group=group, lr=0.05)
            with Join([replica, optimizer]):
                self.train_own(replica, optimizer)
            self.expect_agreement(replica.module)
            results.append(replica.module)
        self.same_parameters(*results)


class ShardedOptimizers(ModelTest):
    @on_ranks(1, 2, 3, 4)
    def test_the_model_is_the_one_of_a_whole_optimizer(self):
        model = made(Net)
        expected = trained_serially(model, self.world, kSteps, adam)
        for options in ({}, {"parameters_as_bucket_view": True}):
            with self.case(**options):
                replica = parallel(model)
                optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.Adam, lr=0.01, **options)
                train(replica, optimizer, self.batches())
                self.same_parameters(replica.module, expected, 1e-4)
                self.expect_agreement(replica.module)

    @on_ranks(2, 3)
    def test_its_state_is_put_together_on_one_rank(self):
        model = made(Net)
        serial = copy.deepcopy(model)
        whole = adam(serial.parameters())
        for step in range(kSteps):
            whole.zero_grad()
            for rank in range(self.world):
                (loss_of(serial, batch_of(rank, step)) / self.world).backward()
            whole.step()
        replica = parallel(model)
        optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.Adam, lr=0.01)
        train(replica, optimizer, self.batches())
        root = self.world - 1
        optimizer.consolidate_state_dict(to=root)
        if self.rank == root:
            state, expected = optimizer.state_dict()["state"], whole.state_dict()["state"]
            self.assertEqual(set(state), set(expected))
            for key in expected:
                for name in ("exp_avg", "exp_avg_sq"):
                    with self.case(key, name):
                        self.same(state[key][name], expected[key][name], 1e-4)

    @on_ranks(2)
    def test_a_saved_state_is_taken_up_again(self):
        replica = parallel(made(Net))
        optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.Adam, lr=0.01)
        train(replica, optimizer, self.batches()[:3])
        optimizer.consolidate_state_dict(to=0)
        saved = [optimizer.state_dict() if self.rank == 0 else None]
        dist.broadcast_object_list(saved, 0)
        resumed = parallel(replica.module)
        its_optimizer = ZeroRedundancyOptimizer(resumed.parameters(), torch.optim.Adam, lr=0.01)
        its_optimizer.load_state_dict(copy.deepcopy(saved[0]))  # else both would share it
        train(replica, optimizer, self.batches()[3:])
        train(resumed, its_optimizer, self.batches()[3:])
        self.same_parameters(resumed.module, replica.module, 0.0)


class ModelAveraging(ModelTest):
    kWarmUp, kPeriod, kLocalSteps = 3, 3, 10

    def expected(self, model):
        """Ranks train alone after the warm-up, from time to time set to their mean."""
        replicas = [copy.deepcopy(model) for _ in range(self.world)]
        optimizers = [torch.optim.SGD(replica.parameters(), lr=0.05) for replica in replicas]
        for step in range(self.kLocalSteps):
            for rank, replica in enumerate(replicas):
                optimizers[rank].zero_grad()
                loss_of(replica, batch_of(rank, step)).backward()
            if step < self.kWarmUp:
                self.set_to_mean(replicas, lambda parameter: parameter.grad)
            for optimizer in optimizers:
                optimizer.step()
            if step >= self.kWarmUp and (step - self.kWarmUp) % self.kPeriod == 0:
                self.set_to_mean(replicas, lambda parameter: parameter.data)
        return replicas[self.rank]

    def set_to_mean(self, replicas, part):
        for parameters in zip(*(replica.parameters() for replica in replicas)):
            mean = torch.stack([part(parameter) for parameter in parameters]).mean(0)
            for parameter in parameters:
                part(parameter).copy_(mean)

    @on_ranks(2, 3)
    def test_local_steps_with_periodic_averages(self):
        model = made(Net)
        alone = [dist.new_group([rank]) for rank in range(self.world)][self.rank]
        replica = parallel(model, small_buckets=True)
        replica.register_comm_hook(PostLocalSGDState(None, alone, self.kWarmUp), post_localSGD_hook)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(replica.parameters(), lr=0.05),
                                          PeriodicModelAverager(self.kPeriod, self.kWarmUp))
        train(replica, optimizer, self.batches(self.kLocalSteps))
        self.same_parameters(replica.module, self.expected(model))
        self.expect_agreement(replica.module)
