"""Sparse gradients, as those of an embedding, in the codes of banyan_torch.compress(): by rows, with residuals."""

import copy

import torch

import banyan_torch
from models import batch_of, loss_of, made, parallel, train, Words
from ranks import not_by_gloo, on_ranks
from test_compress import CompressTest

kTable = "table.weight"


def plain_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)  # with momentum, it takes no sparse gradients


@not_by_gloo("has no codes")
class SparseCodes(CompressTest):
    def own_gradients(self, model, batch, use=loss_of):
        return {name: gradient.to_dense() for name, gradient in super().own_gradients(model, batch, use).items()}

    def averages(self, model):
        self.assertTrue(model.table.weight.grad.is_sparse)
        return {name: p.grad.to_dense() for name, p in model.named_parameters()}

    def sparse_step(self, replica, compression, optimizer, step):
        """One of training, in which nothing may be lost. Gives what came of the table, and its residuals."""
        module = replica.module
        before, gradients = self.residuals(compression, module), self.own_gradients(module, batch_of(self.rank, step))
        optimizer.zero_grad()
        loss_of(replica, batch_of(self.rank, step)).backward()
        averages, after = self.averages(module), self.residuals(compression, module)
        self.expect_nothing_lost(gradients, before, averages, after)
        optimizer.step()
        return averages[kTable], before[kTable], after[kTable]

    def exact(self, step, model):
        """The average of the table's gradients without a code, in float64."""
        sums = self.summed({kTable: self.own_gradients(model, batch_of(self.rank, step))[kTable]})
        return sums[kTable] / self.world

    @on_ranks(2, 3)
    def test_nothing_is_lost_of_sparse_gradients(self):
        for codec in ("bfloat16", "fp8", "int8", "int4", "int4:stochastic", "sign"):
            with self.case(codec):
                replica, compression = self.compressed(made(Words), codec)
                optimizer = plain_sgd(replica)
                for step in range(5):
                    self.sparse_step(replica, compression, optimizer, step)
                self.assertGreater(compression.residual_norms()[kTable], 0, "nothing was coded")
                self.expect_agreement(replica.module)

    @on_ranks(2, 3)
    def test_averages_are_those_of_float32_but_for_the_code(self):
        for codec, most in (("bfloat16", 0.01), ("int8", 0.02), ("int4", 0.3)):
            with self.case(codec):
                replica, compression = self.compressed(made(Words), codec)
                exact = self.exact(0, replica.module)
                average, _, _ = self.sparse_step(replica, compression, plain_sgd(replica), 0)
                off = float((average.double() - exact).norm() / exact.norm())
                self.assertTrue(1e-5 < off < most, off)

    @on_ranks(2, 3)
    def test_what_is_kept_of_a_row_waits_until_somebody_has_the_row(self):
        """Each rank keeps its number in all rows. Who has a row sends what it keeps of it, and its owner does so, too:
        the others keep theirs."""
        replica, compression = self.compressed(made(Words), "bfloat16")
        rows = replica.module.table.weight.shape[0]
        kept = torch.full(replica.module.table.weight.shape, float(64 * (self.rank + 1)))
        compression.load_state_dict({"codec": "bfloat16", "residuals": {kTable: kept}})
        average, before, after = self.sparse_step(replica, compression, plain_sgd(replica), 0)
        self.same(before, kept)
        mine = self.own_gradients(replica.module, batch_of(self.rank, 0))[kTable].abs().sum(1) > 0
        everyone = average.abs().sum(1) > 0
        self.assertTrue(0 < int(mine.sum()) < int(everyone.sum()) < rows, "the batch is no use for this test")
        self.same(after[~everyone], kept[~everyone])
        self.assertTrue(bool((after[mine].abs() < 8).all()), "what was sent is kept still")
        is_kept = (after == kept).all(1)
        self.assertTrue(bool((is_kept | (after.abs() < 8).all(1)).all()))

    @on_ranks(2)
    def test_without_residuals_it_is_forgotten(self):
        replica, compression = self.compressed(made(Words), "int4", residual=False)
        for step in range(2):
            exact = self.exact(step, replica.module)
            replica.zero_grad()
            loss_of(replica, batch_of(self.rank, step)).backward()
            average = self.averages(replica.module)[kTable]
            self.assertTrue(1e-3 < float((average.double() - exact).norm() / exact.norm()) < 0.3)
        self.assertEqual(compression.state_dict()["residuals"], {})

    @on_ranks(2)
    def test_where_there_is_no_code_for_them_they_go_as_they_are(self):
        def table_of(replica):
            loss_of(replica, batch_of(self.rank, 0)).backward()
            return self.averages(replica.module)[kTable]

        model = made(Words)
        expected = table_of(parallel(model, process_group=self.tcp()))
        for codec in ("none", "topk:10%+int8", "powersgd:2"):
            with self.case(codec):
                replica, compression = self.compressed(model, codec)
                self.same(table_of(replica), expected)
                self.assertNotIn(kTable, compression.residual_norms())
        replica = parallel(model)  # through shared memory
        compression = banyan_torch.compress(replica, "int8")
        self.same(table_of(replica), table_of(parallel(model)))
        self.assertNotIn(kTable, compression.residual_norms())

    @on_ranks(2, 3)
    def test_what_is_not_finite_comes_out_everywhere_and_does_not_stay(self):
        replica, compression = self.compressed(made(Words), "int8")
        optimizer, module = plain_sgd(replica), replica.module
        self.sparse_step(replica, compression, optimizer, 0)
        before = compression.state_dict()["residuals"][kTable]
        optimizer.zero_grad()
        (loss_of(replica, batch_of(self.rank, 0)) * (float("inf") if self.rank == 0 else 1.0)).backward()
        wrong = ~torch.isfinite(self.averages(module)[kTable])
        self.assertTrue(bool(wrong.any()))
        after = compression.state_dict()["residuals"][kTable]
        self.same(after[wrong], before[wrong])
        self.assertTrue(bool(torch.isfinite(after).all()))
        self.sparse_step(replica, compression, optimizer, 1)
        self.expect_agreement(module)

    @on_ranks(2)
    def test_accumulated_gradients_are_sent_once(self):
        replica, compression = self.compressed(made(Words), "int8")
        module, gradients = replica.module, []
        with replica.no_sync():
            for step in range(2):
                gradients.append(self.own_gradients(module, batch_of(self.rank, step)))
                loss_of(replica, batch_of(self.rank, step)).backward()
        self.assertEqual(compression.residual_norms(), {})
        gradients.append(self.own_gradients(module, batch_of(self.rank, 2)))
        loss_of(replica, batch_of(self.rank, 2)).backward()
        nothing = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
        self.expect_nothing_lost({name: sum(each[name] for each in gradients) for name in nothing}, nothing,
                                 self.averages(module), self.residuals(compression, module))

    @on_ranks(2)
    def test_residuals_are_saved_and_restored_by_name(self):
        replica, compression = self.compressed(made(Words), "int4")
        optimizer = plain_sgd(replica)
        for step in range(3):
            self.sparse_step(replica, compression, optimizer, step)
        state = copy.deepcopy(compression.state_dict())
        self.assertEqual(set(state["residuals"]), {kTable, "end.weight", "end.bias"})
        other, again = self.compressed(replica.module, "int4")
        again.load_state_dict(state)
        _, before, _ = self.sparse_step(other, again, plain_sgd(other), 3)
        self.same(before, state["residuals"][kTable])
        again.scale_(0)
        self.assertEqual(sum(again.residual_norms().values()), 0)

    @on_ranks(4, init=False)
    def test_between_boxes_they_go_in_the_code_between_all(self):
        with self.on_hosts([0, 0, 1, 1]):
            replica = parallel(made(Words))
            compression = banyan_torch.compress(replica, "int8", box_ranks=2)
            for step in range(3):
                self.sparse_step(replica, compression, plain_sgd(replica), step)
            self.assertGreater(compression.residual_norms()[kTable], 0)
            self.expect_agreement(replica.module)

    @on_ranks(2)
    def test_ranks_train_to_the_same_bits(self):
        replica, _ = self.compressed(made(Words), "int4", small_buckets=True)
        train(replica, plain_sgd(replica), self.batches(12))
        self.expect_agreement(replica.module)
