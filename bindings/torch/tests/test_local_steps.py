"""Parameters that are exchanged every so many steps: banyan_torch.LocalSteps."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import banyan_torch
from models import batch_of, loss_of, made, Net, train
from ranks import not_by_gloo, on_ranks
from test_ddp import ModelTest


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


class Simulated:
    """All ranks in one process, by the definition: torch.optim.SGD is the outer optimizer of each fragment."""

    def __init__(self, model, world, every, fragments, delay=0, keep_local=0.0, ranks_of_box=1):
        self.models = [copy.deepcopy(model) for _ in range(world)]
        self.optimizers = [adam(one.parameters()) for one in self.models]
        self.last = [p.detach().clone() for p in model.parameters()]
        self.outer = [torch.optim.SGD([last], lr=0.7, momentum=0.9, nesterov=True) for last in self.last]
        self.every, self.fragments, self.delay, self.keep_local = every, fragments, delay, keep_local
        self.begun, self.box = {}, ranks_of_box

    def train(self, steps, fragment_of):
        for step in range(1, steps + 1):
            gradients = []
            for rank, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
                optimizer.zero_grad()
                loss_of(model, batch_of(rank, step)).backward()
                gradients.append([p.grad for p in model.parameters()])
            for rank, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
                first = rank // self.box * self.box
                for i, p in enumerate(model.parameters()):
                    p.grad = sum(gradients[other][i] for other in range(first, first + self.box)) / self.box
                optimizer.step()
            for number in [number for number, due in self.begun if due == step]:
                self.end(number, self.begun.pop((number, step)), fragment_of)
            period = self.every // self.fragments
            if step % period == 0:
                number = (step // period - 1) % self.fragments
                changes = [sum(last - list(model.parameters())[i].detach() for model in self.models) / len(self.models)
                           for i, last in enumerate(self.last)]
                if self.delay:
                    self.begun[number, step + self.delay] = changes
                else:
                    self.end(number, changes, fragment_of)

    def end(self, number, changes, fragment_of):
        for i, (last, change) in enumerate(zip(self.last, changes)):
            if fragment_of[i] != number:
                continue
            last.grad = change
            self.outer[i].step()
            for model in self.models:
                p = list(model.parameters())[i]
                p.data = self.keep_local * p.data + (1 - self.keep_local) * last


@not_by_gloo("has no codes")
class LocalTest(ModelTest):
    def tcp(self):
        return dist.new_group(pg_options=banyan_torch.Options(transport="tcp"))

    def run_steps(self, model, outer, steps, first=1, optimizer=None):
        optimizer = adam(model.parameters()) if optimizer is None else optimizer
        for step in range(first, first + steps):
            train(model, optimizer, [batch_of(self.rank, step)])
            outer.step()
        return optimizer

    def fragment_of(self, outer, model):
        """Of each parameter."""
        numbers = {name: number for number, part in enumerate(outer._parts) for name in part.names}
        return [numbers[name] for name, _ in model.named_parameters()]


class Definition(LocalTest):
    @on_ranks(1, 2, 3)
    def test_training_is_that_of_the_definition(self):
        for case in ((4, 1, 0, 0.0), (6, 3, 0, 0.0), (6, 2, 2, 0.0), (6, 6, 0, 0.5), (8, 2, 3, 0.5)):
            every, fragments, delay, keep_local = case
            with self.case(case):
                model = made(Net, width=33)
                outer = banyan_torch.LocalSteps(model, every=every, fragments=fragments, delay=delay,
                                                keep_local=keep_local, group=self.tcp())
                simulated = Simulated(model, self.world, every, fragments, delay, keep_local)
                self.run_steps(model, outer, 2 * every + delay)
                simulated.train(2 * every + delay, self.fragment_of(outer, model))
                self.same_parameters(model, simulated.models[self.rank], 1e-4)

    @on_ranks(2, 3)
    def test_all_ranks_have_the_same_bits_after_an_exchange(self):
        for codec in ("none", "int4"):
            model = made(Net, width=33)
            outer = banyan_torch.LocalSteps(model, every=5, codec=codec, group=self.tcp())
            optimizer = self.run_steps(model, outer, 9)
            parts = [torch.empty_like(model.layers[0].weight) for _ in range(self.world)]
            dist.all_gather(parts, model.layers[0].weight.detach())
            self.assertFalse(torch.equal(*parts[:2]), "ranks do not train by themselves: this tests nothing")
            self.run_steps(model, outer, 1, 10, optimizer)
            self.expect_agreement(model)

    @on_ranks(2, 3)
    def test_parameters_of_rank_0_become_those_of_all(self):
        torch.manual_seed(self.rank)
        model = Net()
        banyan_torch.LocalSteps(model, every=5)
        torch.manual_seed(0)
        self.same_parameters(model, Net(), 0.0)

    @on_ranks(2)
    def test_tensors_larger_than_a_fragment_and_every_fragment_get_their_own(self):
        """The traps of others: the large tensor is left out, and all callbacks see the last fragment's variables."""
        torch.manual_seed(3)
        model = nn.ParameterList([nn.Parameter(torch.zeros(size)) for size in (3, 5000, 2, 4, 1)])
        outer = banyan_torch.LocalSteps(model, every=4, fragments=4, delay=0, lr=1.0, momentum=0.0, group=self.tcp())
        self.assertEqual([part.names for part in outer._parts], [["0"], ["1"], ["2"], ["3", "4"]])
        fragments = self.fragment_of(outer, model)
        for step in range(1, 5):
            for i, p in enumerate(model):
                p.data.fill_(100.0 * i + 10 * self.rank)
            outer.step()
            for i, p in enumerate(model):
                is_exchanged = fragments[i] == step - 1
                self.same(p.data, torch.full_like(p, 100.0 * i + (5 if is_exchanged else 10 * self.rank)), 1e-6)

    @on_ranks(2)
    def test_an_exchange_goes_on_while_a_rank_trains(self):
        """Rank 0 begins it and makes its next step before rank 1 begins."""
        model = made(Net)
        outer = banyan_torch.LocalSteps(model, every=4, delay=2, group=self.tcp())
        optimizer = self.run_steps(model, outer, 3)
        if self.rank == 1:
            self.await_mark("begun")
        self.run_steps(model, outer, 2, 4, optimizer)
        self.mark("begun")
        self.run_steps(model, outer, 1, 6, optimizer)
        for part in outer._parts:
            self.same(part.vector(), part.last)

    @on_ranks(4)
    def test_two_levels(self):
        box, across = banyan_torch.two_level_groups(2, pg_options=banyan_torch.Options(transport="tcp"))
        model = made(Net, width=33)
        replica = DistributedDataParallel(copy.deepcopy(model), process_group=box)
        outer = banyan_torch.LocalSteps(replica, every=4, fragments=2, group=across, box=box)
        simulated = Simulated(model, 4, 4, 2, ranks_of_box=2)
        self.run_steps(replica, outer, 8)
        simulated.train(8, self.fragment_of(outer, model))
        self.same_parameters(replica.module, simulated.models[self.rank], 1e-4)
        outer.finish()
        for name, parameter in replica.module.named_parameters():  # the same bits in a box, at any step
            others = [torch.empty_like(parameter) for _ in range(2)]
            dist.all_gather(others, parameter.detach(), group=box)
            self.same(others[0], others[1])

    @on_ranks(4)
    def test_two_levels_in_a_code(self):
        box, across = banyan_torch.two_level_groups(2, pg_options=banyan_torch.Options(transport="tcp"))
        replica = DistributedDataParallel(made(Net, width=33), process_group=box)
        outer = banyan_torch.LocalSteps(replica, every=4, group=across, box=box, codec="int4")
        self.run_steps(replica, outer, 8)
        self.expect_agreement(replica.module)
        self.assertGreater(outer.residual_norms()[0], 0)


class Codes(LocalTest):
    @on_ranks(2, 3)
    def test_nothing_is_lost(self):
        """Over all ranks: changes and residuals before are the averages and the residuals after."""
        model = made(Net, width=33)
        outer = banyan_torch.LocalSteps(model, every=3, codec="int4", lr=1.0, momentum=0.0, group=self.tcp())
        optimizer = None

        def lost():
            found = outer.state_dict()["exchange"]["residuals"]
            return self.summed(torch.cat([found.get(name, torch.zeros_like(values)).reshape(-1)
                                          for name, values in model.named_parameters()]))

        for turn in range(4):
            optimizer = self.run_steps(model, outer, 2, 3 * turn + 1, optimizer)
            before, last = lost(), outer._parts[0].last.clone()
            train(model, optimizer, [batch_of(self.rank, 3 * turn + 3)])
            changes = self.summed(last - outer._parts[0].vector())
            outer.step()
            results = (last.double() - outer._parts[0].last.double()) * self.world
            off = (changes + before - results - lost()).abs().max()
            self.assertLess(float(off), 1e-6 * float(last.abs().max()) * self.world)
            self.assertGreater(float(lost().abs().max()), 0)

    def summed(self, tensor):
        total = tensor.detach().double().clone()
        dist.all_reduce(total)
        return total


    @on_ranks(3)
    def test_matrices_are_sent_as_products_of_two(self):
        """PowerSGD: all ranks have the same bits, which are not those of no codec, and nothing is lost."""
        changed = {}
        for codec, options in (("none", {}), ("powersgd:2", {"dense_steps": 1})):
            model = made(Net, width=65)
            outer = banyan_torch.LocalSteps(model, every=2, codec=codec, group=self.tcp(), lr=1.0, momentum=0.0,
                                            **options)
            optimizer = self.run_steps(model, outer, 2)  # sent as it is
            self.assertEqual(outer.residual_norms(), [0.0])
            before = outer._parts[0].last.clone()
            train(model, optimizer, [batch_of(self.rank, 3)])
            outer.step()
            train(model, optimizer, [batch_of(self.rank, 4)])
            own = self.summed(before - outer._parts[0].vector())
            outer.step()
            self.expect_agreement(model)
            changed[codec] = before.double() - outer._parts[0].last.double()
            found = outer.state_dict()["exchange"]["residuals"]
            kept = self.summed(torch.cat([found.get(name, torch.zeros_like(values)).reshape(-1)
                                          for name, values in model.named_parameters()]))
            off = (own - changed[codec] * self.world - kept).abs().max()
            self.assertLess(float(off), 1e-5 * float(own.abs().max()))
        self.assertGreater(outer.residual_norms()[0], 0)
        self.assertGreater(float((changed["none"] - changed["powersgd:2"]).abs().max()), 0)

    @on_ranks(2)
    def test_powersgd_goes_on_from_a_state(self):
        options = {"every": 2, "codec": "powersgd:1", "dense_steps": 0, "group": self.tcp()}
        model = made(Net, width=65)
        outer = banyan_torch.LocalSteps(model, **options)
        optimizer = self.run_steps(model, outer, 4)
        saved = copy.deepcopy([model.state_dict(), optimizer.state_dict(), outer.state_dict()])
        other = made(Net, width=65)
        resumed = banyan_torch.LocalSteps(other, **options)
        other.load_state_dict(saved[0])
        again = adam(other.parameters())
        again.load_state_dict(saved[1])
        resumed.load_state_dict(saved[2])
        self.run_steps(model, outer, 4, 5, optimizer)
        self.run_steps(other, resumed, 4, 5, again)
        self.same_parameters(other, model, 0.0)


class State(LocalTest):
    @on_ranks(2)
    def test_training_goes_on_with_the_same_bits(self):
        model = made(Net, width=33)
        options = {"every": 6, "fragments": 3, "codec": "int4", "keep_local": 0.25}
        outer = banyan_torch.LocalSteps(model, group=self.tcp(), **options)
        optimizer = self.run_steps(model, outer, 9)
        saved = copy.deepcopy([model.state_dict(), optimizer.state_dict(), outer.state_dict()])
        other = made(Net, width=33)
        resumed = banyan_torch.LocalSteps(other, group=self.tcp(), **options)
        other.load_state_dict(saved[0])
        optimizers = [optimizer, adam(other.parameters())]
        optimizers[1].load_state_dict(saved[1])
        resumed.load_state_dict(saved[2])
        for one, two, three in ((model, outer, optimizers[0]), (other, resumed, optimizers[1])):
            self.run_steps(one, two, 9, 10, three)
        self.same_parameters(other, model, 0.0)
        self.assertEqual(resumed.steps, 18)

    @on_ranks(2)
    def test_states_during_an_exchange_or_of_others_are_refused(self):
        outer = banyan_torch.LocalSteps(made(Net), every=4, delay=2, group=self.tcp())
        good = outer.state_dict()
        for _ in range(4):
            outer.step()
        with self.assertRaisesRegex(RuntimeError, "under way until step 6, and this is step 4"):
            outer.state_dict()
        outer.finish()
        outer.state_dict()
        for options, words in (({"fragments": 2}, "other parameters or fragments"), ({"codec": "int8"}, "other codec")):
            other = banyan_torch.LocalSteps(made(Net), every=4, group=self.tcp(), **options)
            with self.assertRaisesRegex(ValueError, words):
                other.load_state_dict(good)
        other = banyan_torch.LocalSteps(made(Net), every=4, group=self.tcp())
        for key in ("last", "momentum"):
            bad = copy.deepcopy(good)
            bad[key][0][3] = float("nan")
            with self.assertRaisesRegex(ValueError, "of a fragment of '0' has values that are not finite"):
                other.load_state_dict(bad)
        with self.assertRaisesRegex(ValueError, "has no 'momentum': it is not of LocalSteps.state_dict"):
            other.load_state_dict({key: value for key, value in good.items() if key != "momentum"})


class Arguments(LocalTest):
    @on_ranks(3)
    def test_options_that_differ_name_the_ranks(self):
        for mine, words in (({"every": 6 if self.rank == 1 else 12}, "every: 12 on ranks 0, 2; 6 on rank 1"),
                            ({"every": 6, "fragments": 1 + self.rank // 2}, "fragments: 1 on ranks 0, 1; 2 on rank 2"),
                            ({"every": 6, "codec": "powersgd:2", "dense_steps": self.rank // 2},
                             "dense_steps: 0 on ranks 0, 1; 1 on rank 2"),
                            ({"every": 6, "codec": "int8" if self.rank else "none"},
                             "codec: none on rank 0; int8 on ranks 1, 2")):
            with self.assertRaisesRegex(banyan_torch.MismatchError, f"differ in {words}$"):
                banyan_torch.LocalSteps(made(Net), **mine)
        with self.assertRaisesRegex(banyan_torch.MismatchError, "differ in values: 237 on ranks 0, 1; 1263 on rank 2"):
            banyan_torch.LocalSteps(made(Net, width=9 if self.rank < 2 else 28), every=2)

    @on_ranks(1)
    def test_wrong_ones_are_refused_in_one_line(self):
        late = {"every": 4, "fragments": 2, "delay": 2}
        for options, words in (({"every": 0}, "every is to be a multiple"),
                               ({"every": 5, "fragments": 2}, "multiple of"),
                               (late, "delay is to be less than every / fragments, 2"),
                               ({"every": 9, "fragments": 9}, "fragments is to be 1 to 6"),
                               ({"every": 4, "keep_local": 1}, "keep_local and momentum"),
                               ({"every": 4, "lr": 0}, "lr"),
                               ({"every": 4, "codec": "auto"}, "takes a code by its name"),
                               ({"every": 4, "codec": "int8", "dense_steps": 2}, "int8 has no option 'dense_steps'"),
                               ({"every": 4, "codec": "powersgd:2", "box": dist.group.WORLD},
                                "powersgd:2 codes matrices"),
                               ({"every": 4, "codec": "int7"}, "int7")):
            with self.case(**options), self.assertRaisesRegex(ValueError, f"^[^\n]*{words}[^\n]*$"):
                banyan_torch.LocalSteps(made(Net), **options)
        with self.assertRaisesRegex(ValueError, "'layers.0.weight' is torch.float64"):
            banyan_torch.LocalSteps(made(Net, dtype=torch.float64), every=4)
        with self.assertRaisesRegex(ValueError, "box_ranks is to divide the number of ranks, 1"):
            banyan_torch.two_level_groups(2)
