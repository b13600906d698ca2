"""Gradients as products of narrow matrices: banyan_torch.compress(ddp, "powersgd:2")."""

import copy
import math

import torch
import torch.distributed as dist
from torch import nn

import banyan_torch
from data import tensor_of
from models import batch_of, Branches, loss_of, made, Net, parallel, sgd, train, trained_serially
from ranks import not_by_gloo, on_ranks
from test_compress import CompressTest

kMatrices = ("layers.0.weight", "layers.2.weight")  # of Net(width=33): 33 x 12 and 33 x 33; the third has three rows


@not_by_gloo("has no codes")
class PowerSgdTest(CompressTest):
    def low_rank(self, model, rank=2, dense_steps=0, residual=True, powersgd={}, **options):
        replica = parallel(model, process_group=self.tcp(), **options)
        return replica, banyan_torch.compress(replica, f"powersgd:{rank}", residual=residual, dense_steps=dense_steps,
                                              **powersgd)

    def expect_lost(self, compression, names=kMatrices):
        self.assertEqual({name for name, norm in compression.residual_norms().items() if norm > 0}, set(names))


def serially(model, world, step):
    """Of all ranks: the gradients that each has of this model, by name, in float64."""
    found = []
    for rank in range(world):
        alone = copy.deepcopy(model)
        alone.zero_grad(set_to_none=True)
        loss_of(alone, batch_of(rank, step)).backward()
        found.append({name: p.grad.double() for name, p in alone.named_parameters()})
    return found


class Paper:
    """PowerSGD of algorithms 1 and 2 of the paper, of one matrix on all ranks, in float64."""

    def __init__(self, q, world):
        self.q, self.errors = q.double(), [0.0] * world

    def step(self, gradients):
        sent = [gradient + error for gradient, error in zip(gradients, self.errors)]
        p, _ = torch.linalg.qr(sum(m @ self.q for m in sent) / len(sent))
        self.q = sum(m.T @ p for m in sent) / len(sent)
        average = p @ self.q.T
        self.errors = [m - average for m in sent]
        return average


class Definition(PowerSgdTest):
    @on_ranks(2, 3)
    def test_averages_and_losses_are_those_of_the_paper(self):
        replica, compression = self.low_rank(made(Net, width=33), rank=3)
        shapes = {name: p.shape for name, p in replica.module.named_parameters()}
        first = {name: tensor_of(0, (shapes[name][1], 3), salt=i) for i, name in enumerate(kMatrices)}
        compression.load_state_dict({"codec": "powersgd:3", "residuals": {}, "directions": first})
        papers = {name: Paper(q, self.world) for name, q in first.items()}
        optimizer = sgd(replica.parameters())
        for step in range(6):
            gradients = serially(replica.module, self.world, step)
            optimizer.zero_grad()
            loss_of(replica, batch_of(self.rank, step)).backward()
            lost = self.summed(self.residuals(compression, replica.module))
            for name, parameter in replica.module.named_parameters():
                with self.case(name, step=step):
                    of_ranks = [gradient[name] for gradient in gradients]
                    if name not in papers:
                        self.same(parameter.grad.double(), sum(of_ranks) / self.world, 1e-5)
                        continue
                    self.same(parameter.grad.double(), papers[name].step(of_ranks), 1e-4)
                    self.same(lost[name], sum(papers[name].errors), 1e-4)
            optimizer.step()

    @on_ranks(2, 3)
    def test_nothing_is_lost(self):
        for rank in (1, 2, 5):
            with self.case(rank):
                replica, compression = self.low_rank(made(Net, width=65), rank, dense_steps=2,
                                                     powersgd={"least_ratio": 1})
                optimizer = sgd(replica.parameters())
                for step in range(6):
                    self.step(replica, compression, optimizer, batch_of(self.rank, step))
                self.assertGreater(sum(compression.residual_norms().values()), 0, "nothing was compressed")
                self.expect_agreement(replica.module)

    @on_ranks(2, 4)
    def test_nothing_is_lost_in_many_buckets_nor_when_they_change(self):
        for views in (False, True):
            replica, compression = self.low_rank(made(Net, width=31), small_buckets=True, gradient_as_bucket_view=views)
            optimizer = sgd(replica.parameters())
            for step in range(6):
                self.step(replica, compression, optimizer, batch_of(self.rank, step))
            self.expect_lost(compression)
            self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_what_has_this_rank_is_sent_whole(self):
        """The gradient of a layer, of two inputs in all, is the sum of two products of vectors."""
        torch.manual_seed(11)
        replica, compression = self.low_rank(nn.Linear(12, 20, bias=False), rank=2)
        batch = tensor_of(self.rank, (1, 12)), tensor_of(self.rank, (1, 20), salt=1)
        gradients = self.summed(self.own_gradients(replica.module, batch))
        for step in range(4):
            replica.zero_grad()
            loss_of(replica, batch).backward()
            if step > 0:  # the first random directions may be nearly blind for one of the two
                self.same(replica.module.weight.grad.double(), gradients["weight"] / 2, 1e-3)
        self.assertLess(compression.residual_norms()["weight"], 1e-3 * float(gradients["weight"].norm()))

    @on_ranks(2)
    def test_without_residuals_it_is_forgotten(self):
        replica, compression = self.low_rank(made(Net, width=33), residual=False)
        first = {name: tensor_of(0, (p.shape[1], 2), salt=1) for name, p in replica.named_parameters()
                 if name.removeprefix("module.") in kMatrices}
        first = {name.removeprefix("module."): q for name, q in first.items()}
        compression.load_state_dict({"codec": "powersgd:2", "residuals": {}, "directions": first})
        gradients = serially(replica.module, 2, 0)
        loss_of(replica, batch_of(self.rank, 0)).backward()
        for name, parameter in replica.module.named_parameters():
            if name in kMatrices:
                average = Paper(first[name], 2).step([gradient[name] for gradient in gradients])
                self.same(parameter.grad.double(), average, 1e-4)
        self.assertEqual(compression.state_dict()["residuals"], {})

    @on_ranks(2, 3)
    def test_the_first_steps_are_as_without_a_hook(self):
        replica, compression = self.low_rank(made(Net, width=33), dense_steps=3)
        plain = parallel(made(Net, width=33), process_group=self.tcp())
        for either in (replica, plain):
            train(either, sgd(either.parameters()), self.batches(3))
        self.same_parameters(replica.module, plain.module, 0.0)
        self.assertEqual(compression.residual_norms(), {})
        train(replica, sgd(replica.parameters()), [batch_of(self.rank, 3)])
        self.expect_lost(compression)

    @on_ranks(2)
    def test_only_what_gets_smaller_is_compressed(self):
        """33 x 12 of rank 2: 90 numbers in place of 396; 33 x 33: 132 in place of 1089; 3 x 33: 72 of 99."""
        third = "layers.4.weight"
        for least, names in ((1.3, (*kMatrices, third)), (1.4, kMatrices), (4.3, kMatrices), (4.5, kMatrices[1:]),
                             (8.2, kMatrices[1:]), (8.3, ())):
            with self.case(least):
                replica, compression = self.low_rank(made(Net, width=33), powersgd={"least_ratio": least})
                loss_of(replica, batch_of(self.rank, 0)).backward()
                self.expect_lost(compression, names)


class Calls(PowerSgdTest):
    @on_ranks(2)
    def test_a_bucket_is_one_call_and_one_of_the_twin(self):
        replica, _ = self.low_rank(made(Net, width=33), dense_steps=1)
        group = replica.process_group
        counts = []
        for step in range(4):
            before = group._get_sequence_number_for_group()
            loss_of(replica, batch_of(self.rank, step)).backward()
            counts.append(group._get_sequence_number_for_group() - before)
        self.assertEqual(counts[-2:], [1, 1])

    @on_ranks(2, 3)
    def test_no_bucket_waits_for_another(self):
        self.expect_no_bucket_to_wait("powersgd:2", dense_steps=0)

    @on_ranks(2)
    def test_both_hooks_give_the_same_bits(self):
        inside, _ = self.low_rank(made(Net, width=33), small_buckets=True)
        outside = parallel(made(Net, width=33), process_group=self.tcp(), small_buckets=True)
        outside.register_comm_hook(banyan_torch.Compression(outside, "powersgd:2", dense_steps=0),
                                   banyan_torch.compress_hook)
        for either in (inside, outside):
            train(either, sgd(either.parameters()), self.batches())
        self.same_parameters(inside.module, outside.module, 0.0)

    @on_ranks(2)
    def test_two_models_on_one_group(self):
        group = self.tcp()
        replicas = [parallel(made(Net, width=width), process_group=group, small_buckets=True) for width in (33, 40)]
        states = [banyan_torch.compress(replica, "powersgd:2", dense_steps=dense)
                  for replica, dense in zip(replicas, (0, 2))]
        self.expect_no_disturbance(replicas, states)

    @on_ranks(2)
    def test_through_shared_memory_nothing_is_compressed(self):
        replica, expected = parallel(made(Net, width=33)), parallel(made(Net, width=33))
        compression = banyan_torch.compress(replica, "powersgd:1", dense_steps=0)
        for model in (replica, expected):
            train(model, sgd(model.parameters()), self.batches())
        self.same_parameters(replica.module, expected.module, 0.0)
        self.assertEqual(compression.residual_norms(), {})

    @on_ranks(2, leaves=False)
    def test_residuals_are_to_be_had_after_a_failed_call(self):
        self.expect_residuals_after_a_failed_call("powersgd:2", dense_steps=1)


class Modes(PowerSgdTest):
    @on_ranks(2)
    def test_accumulated_gradients_are_sent_once(self):
        replica, compression = self.low_rank(made(Net, width=33))
        self.step(replica, compression, sgd(replica.parameters()), batch_of(self.rank, 0))
        self.expect_sent_once(replica, compression)

    @on_ranks(2, 3)
    def test_the_residual_of_a_rank_that_has_finished_waits(self):
        """It is made so large that nobody could miss it in the gradients of the others; the rank is that of all."""
        model = made(Net, width=33)
        replica, compression = self.low_rank(model, rank=12, powersgd={"least_ratio": 1})
        batches = 3 + 2 * self.rank
        with replica.join():
            train(replica, sgd(replica.parameters()), [batch_of(self.rank, step) for step in range(batches)])
            if self.rank == 0:
                state = compression.state_dict()
                state["residuals"] = {name: torch.full(p.shape, 1000.0) for name, p in model.named_parameters()}
                compression.load_state_dict(state)
        expected = trained_serially(model, self.world, 3 + 2 * (self.world - 1),
                                    ranks_of_step=lambda step: [r for r in range(self.world) if step < 3 + 2 * r])
        self.same_parameters(replica.module, expected, 0.05)
        self.expect_agreement(replica.module)
        if self.rank == 0:
            for name, values in self.residuals(compression, model).items():
                self.same(values, torch.full_like(values, 1000.0))

    @on_ranks(2, 3)
    def test_nothing_leaks_into_parameters_that_no_rank_uses(self):
        replica, compression = self.low_rank(made(Branches), rank=1, find_unused_parameters=True,
                                             powersgd={"least_ratio": 1})
        module = replica.module
        for step in range(9):
            module.use_odd = step % 2 == 1 if step % 3 else self.rank == 0
            before, directions = self.residuals(compression, module), compression.state_dict()["directions"]
            gradients = self.own_gradients(module, batch_of(self.rank, step))
            module.zero_grad(set_to_none=True)
            loss_of(replica, batch_of(self.rank, step)).backward()
            after = self.residuals(compression, module)
            averages = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
            self.expect_nothing_lost(gradients, before, averages, after)
            for name in set(before) - set(averages):
                self.same(after[name], before[name])
                if name in directions:
                    self.same(compression.state_dict()["directions"][name], directions[name])
        self.expect_lost(compression, [name for name, p in module.named_parameters() if p.dim() == 2])

    @on_ranks(2, 3)
    def test_what_is_not_finite_comes_out_everywhere_and_does_not_stay(self):
        replica, compression = self.low_rank(made(Net, width=33))
        optimizer = sgd(replica.parameters())
        for step in range(2):
            self.step(replica, compression, optimizer, batch_of(self.rank, step))
        for value in (math.nan, math.inf):
            before = compression.state_dict()
            optimizer.zero_grad()
            (loss_of(replica, batch_of(self.rank, 1)) * (value if self.rank == self.world - 1 else 1.0)).backward()
            for name in kMatrices:
                self.assertTrue(bool(replica.module.get_parameter(name).grad.isnan().all()), name)
            after = compression.state_dict()
            for kind in ("residuals", "directions"):
                self.assertEqual(set(before[kind]), set(after[kind]))
                for name, values in before[kind].items():
                    self.same(after[kind][name], values)
            self.step(replica, compression, optimizer, batch_of(self.rank, 2))

    @on_ranks(2)
    def test_one_matrix_that_is_not_finite_costs_no_other(self):
        replica, compression = self.low_rank(made(Net, width=33))
        module, batch = replica.module, batch_of(self.rank, 0)
        self.step(replica, compression, sgd(replica.parameters()), batch)
        before, gradients = self.residuals(compression, module), self.own_gradients(module, batch)
        handle = module.layers[0].weight.register_hook(lambda gradient: gradient * (math.inf if self.rank else 1))
        replica.zero_grad()
        loss_of(replica, batch).backward()
        handle.remove()
        after = self.residuals(compression, module)
        self.assertTrue(bool(module.layers[0].weight.grad.isnan().all()))
        self.same(after["layers.0.weight"], before["layers.0.weight"])
        self.expect_nothing_lost(gradients, before, {"layers.2.weight": module.layers[2].weight.grad}, after)

    @on_ranks(2)
    def test_gradients_in_another_order_of_memory(self):
        torch.manual_seed(11)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 3))
        model = model.to(memory_format=torch.channels_last)
        replica, compression = self.low_rank(model, rank=1)
        batch = (tensor_of(self.rank, (2, 3, 6, 6)), tensor_of(self.rank, (2, 3), salt=1))
        for _ in range(3):
            self.step(replica, compression, sgd(replica.parameters()), batch)
        self.expect_lost(compression, ["0.weight", "2.weight"])

    @on_ranks(2)
    def test_a_loss_scale_that_changes_changes_nothing_else(self):
        """By powers of two, so that the bits of all products stay."""
        gradients = []
        for second in (1024, 256):
            replica, compression = self.low_rank(made(Net, width=33))
            (loss_of(replica, batch_of(self.rank, 0)) * 1024).backward()
            compression.scale_(second / 1024)
            replica.zero_grad()
            (loss_of(replica, batch_of(self.rank, 1)) * second).backward()
            gradients.append([parameter.grad / second for parameter in replica.parameters()])
        for left, right in zip(*gradients):
            self.same(left, right)


class State(PowerSgdTest):
    @on_ranks(2, 3)
    def test_training_goes_on_with_the_same_bits_in_another_process(self):
        torch.manual_seed(11)
        first, compression = self.low_rank(nn.Linear(12, 20, bias=False), dense_steps=3)
        batches = [(tensor_of(self.rank, (6, 12), salt=step), tensor_of(self.rank, (6, 20), salt=99 + step))
                   for step in range(10)]
        train(first, torch.optim.SGD(first.parameters(), lr=0.1), batches[:5])
        second, restored = self.low_rank(copy.deepcopy(first.module), dense_steps=3)
        third, without = self.low_rank(copy.deepcopy(first.module), dense_steps=0)
        state = compression.state_dict()
        self.assertEqual(int(state["steps"]["weight"]), 5)
        restored.load_state_dict(state)
        without.load_state_dict({**state, "directions": {}})
        for replica in (first, second, third):
            train(replica, torch.optim.SGD(replica.parameters(), lr=0.1), batches[5:])
        self.same(second.module.weight.detach(), first.module.weight.detach())
        self.same(restored.state_dict()["residuals"]["weight"], compression.state_dict()["residuals"]["weight"])
        self.assertFalse(torch.equal(third.module.weight, first.module.weight), "directions make no difference")

    @on_ranks(1)
    def test_states_that_do_not_fit_are_refused(self):
        _, compression = self.low_rank(made(Net, width=33))
        good = {"codec": "powersgd:2", "residuals": {}}
        for wrong, words in (({"directions": {"x": torch.zeros(1)}}, "no parameter 'x'"),
                             ({"directions": {"layers.0.weight": torch.zeros(5)}}, "5 values instead of 24"),
                             ({"momenta": {}}, "powersgd:2 keeps no 'momenta'")):
            with self.assertRaisesRegex(RuntimeError, words):
                compression.load_state_dict({**good, **wrong})
        with self.assertRaisesRegex(ValueError, "of codec powersgd:1, and this is of powersgd:2"):
            compression.load_state_dict({**good, "codec": "powersgd:1"})

    @on_ranks(1)
    def test_wrong_arguments_are_refused_in_one_line(self):
        replica = parallel(made(Net), process_group=self.tcp())
        for name, options, words in (("powersgd:0", {}, "^'powersgd:0' is to have a rank of 1 to 256"),
                                     ("powersgd:4x", {}, "rank of 1 to 256"), ("powersgd:", {}, "rank of 1 to 256"),
                                     ("powersgd", {}, "powersgd:RANK"),
                                     ("powersgd:2", {"dense_steps": -1}, "^dense_steps is to be a whole number"),
                                     ("powersgd:2", {"least_ratio": 0.5}, "^least_ratio is to be 1 or more$"),
                                     ("powersgd:2", {"momentum": 1}, "^powersgd:2 has no option 'momentum'$"),
                                     ("int8", {"dense_steps": 1}, "^int8 has no option 'dense_steps'$")):
            with self.case(name, **options), self.assertRaisesRegex(ValueError, words):
                banyan_torch.compress(replica, name, **options)

    @on_ranks(2)
    def test_ranks_of_other_options_are_told(self):
        replica = parallel(made(Net, width=33), process_group=self.tcp())
        for mine, options, words in (
                (f"powersgd:{1 + self.rank}", {}, "codec: powersgd:1 on rank 0; powersgd:2 on rank 1"),
                ("powersgd:2", {"dense_steps": 4 + self.rank}, "dense_steps: 4 on rank 0; 5 on rank 1"),
                ("powersgd:2", {"seed": 3} if self.rank else {}, "seed: left out on rank 0; 3 on rank 1")):
            with self.case(mine, **options), self.assertRaisesRegex(banyan_torch.MismatchError, f"differ in {words}$"):
                banyan_torch.compress(replica, mine, **options)
