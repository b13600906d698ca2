"""Handles of asynchronous calls: states, waiting, results, futures, threads, and what the profiler shows of them."""

import datetime
import gc
import random
import threading
import time

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from data import all_of, reduced, tensor_of
from ranks import backend, RankTest, not_by_gloo, on_ranks, seed

kSize = 50


def started(rank, world):
    """Each kind of collective, started: (name, handle, the tensors that it should give on this rank)."""
    theirs = all_of(world, kSize)
    total = reduced(theirs)
    root = rank == 0

    def blank(count):
        return [torch.zeros(kSize) for _ in range(count)]

    def mine():
        return tensor_of(rank, kSize)

    yield "all_reduce", dist.all_reduce(mine(), async_op=True), [total]
    yield "broadcast", dist.broadcast(mine(), 0, async_op=True), [theirs[0]]
    yield "reduce", dist.reduce(mine(), 0, async_op=True), [total] if root else None
    yield "all_gather", dist.all_gather(blank(world), mine(), async_op=True), theirs
    yield "gather", dist.gather(mine(), blank(world) if root else None, async_op=True), theirs if root else []
    yield "scatter", dist.scatter(torch.zeros(kSize), theirs if root else None, async_op=True), [theirs[rank]]
    yield ("all_to_all", dist.all_to_all_single(torch.zeros(world), torch.arange(world) + 10.0 * rank, async_op=True),
           [torch.arange(world) * 10.0 + rank])
    yield "barrier", dist.barrier(async_op=True), []
    if backend() != "gloo":
        everyone = torch.cat(theirs)
        yield ("_allgather_base", dist.all_gather_into_tensor(torch.zeros(kSize * world), mine(), async_op=True),
               [everyone])
        yield ("reduce_scatter", dist.reduce_scatter(torch.zeros(kSize), [mine() for _ in range(world)], async_op=True),
               [total])
        yield ("_reduce_scatter_base",
               dist.reduce_scatter_tensor(torch.zeros(kSize), mine().repeat(world), async_op=True), [total])


class Handles(RankTest):
    def check_values(self, values, expected):
        if expected is not None:
            self.assertEqual(len(values), len(expected))
            for value, tensor in zip(values, expected):
                self.same(value, tensor)

    @on_ranks(1, 2, 3)
    def test_a_finished_call_says_so_and_has_its_result(self):
        for name, work, expected in started(self.rank, self.world):
            with self.case(name):
                self.assertTrue(work.wait())
                self.assertTrue(work.wait(), "waiting again")
                self.assertTrue(work.is_completed())
                self.assertTrue(work.is_success())
                work.synchronize()
                self.check_values(work.result(), expected)
                self.check_values(work.get_future().value(), expected)
                with self.assertRaisesRegex(RuntimeError, "only be called on work objects that correspond to a recv"):
                    work.source_rank()

    @on_ranks(2)
    def test_a_received_message_names_its_source(self):
        if self.rank == 0:
            for source in (1, None):
                got = torch.zeros(kSize)
                work = dist.irecv(got, source)
                self.assertTrue(work.wait())
                self.assertTrue(work.is_completed())
                self.assertEqual(work.source_rank(), 1)
                self.same(got, tensor_of(1, kSize))
        else:
            for _ in range(2):
                dist.send(tensor_of(1, kSize), 0)

    @on_ranks(2, 3)
    def test_a_call_is_not_complete_before_all_have_come(self):
        if self.rank == 0:
            work = dist.all_reduce(tensor_of(0, kSize), async_op=True)
            time.sleep(0.1)
            self.assertFalse(work.is_completed())
            self.assertFalse(work.get_future().done())
            with self.assertRaisesRegex(RuntimeError, "needs to be completed before"):
                work.result()
            self.mark("looked")
        else:
            self.await_mark("looked")
            work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        work.wait()
        self.same(work.result()[0], reduced(all_of(self.world, kSize)))

    @on_ranks(2, 3)
    def test_a_call_completes_without_anybody_waiting(self):
        work = dist.all_reduce(tensor_of(self.rank, 100_000), async_op=True)
        deadline = time.monotonic() + 10
        while not work.is_completed():
            self.assertLess(time.monotonic(), deadline, "it did not complete by itself")
            time.sleep(0.001)
        self.same(work.result()[0], reduced(all_of(self.world, 100_000)))

    @on_ranks(2)
    def test_messages_complete_without_anybody_waiting(self):
        got = torch.zeros(100_000)
        works = [dist.irecv(got, 1 - self.rank), dist.isend(tensor_of(self.rank, 100_000), 1 - self.rank)]
        deadline = time.monotonic() + 10
        while backend() != "gloo" and not all(work.is_completed() for work in works):
            self.assertLess(time.monotonic(), deadline, "they did not complete by themselves")
            time.sleep(0.001)
        for work in works:
            work.wait()
        self.same(got, tensor_of(1 - self.rank, 100_000))

    @on_ranks(2)
    def test_waiting_gives_up_after_its_timeout_and_can_be_taken_up_again(self):
        if self.rank == 0:
            work = dist.all_reduce(tensor_of(0, kSize), async_op=True)
            start = time.monotonic()
            with self.assertRaisesRegex(RuntimeError, r"(?i)timed? ?out"):
                work.wait(datetime.timedelta(milliseconds=300))
            self.assertTrue(0.25 < time.monotonic() - start < 2, "it did not wait for its timeout")
            self.mark("gave up")
            self.assertTrue(work.wait())
            self.same(work.result()[0], reduced(all_of(self.world, kSize)))
        else:
            self.await_mark("gave up")
            dist.all_reduce(tensor_of(1, kSize))

    @on_ranks(2)
    def test_a_timeout_that_is_long_enough_is_no_error(self):
        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        self.assertTrue(work.wait(datetime.timedelta(seconds=10)))

    @on_ranks(2, 3)
    def test_a_thousand_calls_can_be_open_and_are_waited_for_backwards(self):
        mine = [tensor_of(self.rank, 10 + salt % 7, salt=salt) for salt in range(1000)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in mine]
        for work in reversed(works):
            work.wait()
        for salt, tensor in enumerate(mine):
            self.same(tensor, reduced(all_of(self.world, 10 + salt % 7, salt=salt)))

    @on_ranks(3)
    def test_open_calls_of_all_kinds_may_be_waited_for_in_any_order(self):
        order = random.Random(seed() + self.rank)
        calls = [call for _ in range(10) for call in started(self.rank, self.world)]
        order.shuffle(calls)
        for name, work, expected in calls:
            with self.case(name):
                work.wait()
                self.check_values(work.result(), expected)

    @on_ranks(2, 3)
    def test_tensors_and_handles_may_be_dropped_while_the_call_is_under_way(self):
        for _ in range(50):
            dist.all_reduce(tensor_of(self.rank, 20_000), async_op=True)
        works = [dist.all_reduce(tensor_of(self.rank, 20_000), async_op=True) for _ in range(5)]
        gc.collect()
        for work in works:
            work.wait()
            self.same(work.result()[0], reduced(all_of(self.world, 20_000)))

    @on_ranks(1, 2, 3)
    def test_results_outlive_the_group(self):
        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        future = work.get_future()
        work.wait()
        dist.destroy_process_group()
        gc.collect()
        self.assertTrue(work.is_success())
        self.same(work.result()[0], reduced(all_of(self.world, kSize)))
        self.same(future.value()[0], reduced(all_of(self.world, kSize)))

    @on_ranks(2, 3)
    def test_calls_under_way_complete_although_the_group_is_dropped(self):
        works = [dist.all_reduce(tensor_of(self.rank, 30_000, salt=salt), async_op=True) for salt in range(5)]
        dist.destroy_process_group()
        gc.collect()
        for salt, work in enumerate(works):
            work.wait()
            self.same(work.result()[0], reduced(all_of(self.world, 30_000, salt=salt)))

    @on_ranks(2)
    def test_two_threads_use_two_groups(self):
        groups = [dist.new_group() for _ in range(2)]
        problems = []

        def use(which):
            try:
                for salt in range(100):
                    mine = tensor_of(self.rank, 300, salt=1000 * which + salt)
                    dist.all_reduce(mine, group=groups[which])
                    self.same(mine, reduced(all_of(self.world, 300, salt=1000 * which + salt)))
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=use, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for problem in problems:
            raise problem

    @on_ranks(2)
    def test_another_thread_may_wait(self):
        mine = tensor_of(self.rank, 100_000)
        work = dist.all_reduce(mine, async_op=True)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(work.wait())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [True] * 3)
        self.same(mine, reduced(all_of(self.world, 100_000)))

    @on_ranks(2)
    def test_python_goes_on_while_a_thread_waits(self):
        """Waiting must not hold the interpreter's lock: rank 1 comes only when a thread of rank 0 has counted."""
        if self.rank == 1:
            self.await_mark("counted")
            dist.all_reduce(torch.zeros(1))
            return
        counted = threading.Event()

        def count():
            time.sleep(0.2)
            counted.set()
            self.mark("counted")

        thread = threading.Thread(target=count)
        thread.start()
        dist.all_reduce(torch.zeros(1))
        self.assertTrue(counted.is_set())
        thread.join()


class Modes(RankTest):
    @not_by_gloo("copies in a thread of its own")
    @on_ranks(2)
    def test_the_copies_at_the_end_of_a_call_are_no_part_of_what_is_traced(self):
        """What is not contiguous goes through a copy, which goes back when the caller waits, maybe within make_fx()."""
        strided = tensor_of(self.rank, 6).reshape(2, 3).t()
        expected = reduced([tensor_of(rank, 6) for rank in range(2)]).reshape(2, 3).t()
        work = dist.all_reduce(strided, async_op=True)
        with Operations() as traced:
            work.wait()
        self.assertEqual(traced.names, [])
        self.same(strided, expected)


class Operations(TorchDispatchMode):
    """The names of all operations meanwhile."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


class InferenceMode(RankTest):
    """Tensors that were made in inference mode cannot be changed outside of it, but calls with them may end there."""

    def start(self):
        with torch.inference_mode():
            results = [torch.zeros(3, 5).t() for _ in range(self.world)]  # not contiguous: copied to at the end
            return results, dist.all_gather(results, tensor_of(self.rank, (5, 3)), async_op=True)

    def check(self, results):
        for rank, result in enumerate(results):
            self.assertTrue(result.is_inference())
            self.same(result, tensor_of(rank, (5, 3)))

    @on_ranks(1, 2, 3)
    def test_in_the_background(self):
        results, work = self.start()
        work.get_future().wait()
        self.check(results)

    @on_ranks(2)
    def test_in_wait(self):
        results, work = self.start()
        work.wait()
        self.check(results)

    @on_ranks(2)
    def test_calls_from_outside_end_in_it(self):
        results = [torch.zeros(3, 5).t() for _ in range(self.world)]
        work = dist.all_gather(results, tensor_of(self.rank, (5, 3)), async_op=True)
        with torch.inference_mode():
            work.wait()
        for rank, result in enumerate(results):
            self.assertFalse(result.is_inference())
            self.same(result, tensor_of(rank, (5, 3)))


class Futures(RankTest):
    @on_ranks(1, 2, 3)
    def test_the_value_is_the_list_of_results(self):
        for name, work, expected in started(self.rank, self.world):
            with self.case(name):
                future = work.get_future()
                values = future.wait()
                self.assertIsInstance(values, list)
                self.assertTrue(future.done())
                Handles.check_values(self, values, expected)

    @on_ranks(2, 3)
    def test_then_makes_chains(self):
        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        future = work.get_future().then(lambda f: f.value()[0] * 2).then(lambda f: f.value() + 1)
        self.same(future.wait(), reduced(all_of(self.world, kSize)) * 2 + 1)

    @on_ranks(2)
    def test_callbacks_run_once_when_it_is_done_and_at_once_when_it_was(self):
        seen = []
        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        future = work.get_future()
        future.add_done_callback(lambda f: seen.append(f.value()[0].clone()))
        future.wait()
        deadline = time.monotonic() + 10
        while not seen:
            self.assertLess(time.monotonic(), deadline, "the callback did not run")
            time.sleep(0.001)
        future.add_done_callback(lambda f: seen.append(f.value()[0].clone()))
        self.assertEqual(len(seen), 2)
        for value in seen:
            self.same(value, reduced(all_of(self.world, kSize)))

    @on_ranks(2)
    def test_a_future_taken_after_the_end_is_done(self):
        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        work.wait()
        future = work.get_future()
        self.assertTrue(future.done())
        self.same(future.then(lambda f: f.value()[0] - 1).wait(), reduced(all_of(self.world, kSize)) - 1)

    @on_ranks(2, 3)
    def test_a_callback_may_start_a_call(self):
        """The outer future ends with the call that was started when the first one ended."""
        first = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True).get_future()
        inner = first.then(lambda f: dist.all_reduce(f.value()[0] / 2, async_op=True).get_future())
        total = inner.wait().wait()[0]
        self.same(total, reduced(all_of(self.world, kSize)) / 2 * self.world)

    @on_ranks(2)
    def test_a_callback_that_raises_fails_its_own_future_only(self):
        def fail(_):
            raise ValueError("meant to fail")

        work = dist.all_reduce(tensor_of(self.rank, kSize), async_op=True)
        failed = work.get_future().then(fail)
        with self.assertRaisesRegex(Exception, "meant to fail"):
            failed.wait()
        self.assertTrue(work.wait())
        dist.barrier()

    @on_ranks(2, 3)
    def test_many_futures_are_collected(self):
        futures = [dist.all_reduce(tensor_of(self.rank, kSize, salt=salt), async_op=True).get_future()
                   for salt in range(200)]
        for salt, future in enumerate(torch.futures.wait_all(futures)):
            self.same(future[0], reduced(all_of(self.world, kSize, salt=salt)))

    @not_by_gloo("has no futures of messages")
    @on_ranks(2)
    def test_messages_have_futures(self):
        got = torch.zeros(kSize)
        receiving = dist.irecv(got, 1 - self.rank).get_future()
        sending = dist.isend(tensor_of(self.rank, kSize), 1 - self.rank).get_future()
        receiving.wait()
        sending.wait()
        self.same(got, tensor_of(1 - self.rank, kSize))


class Profiles(RankTest):
    """Each call shows as an event `<backend>:<call>`, asynchronous, with the shapes of its inputs."""

    def run_everything(self):
        world, root = self.world, self.rank == 0

        def blank():
            return [torch.zeros(kSize) for _ in range(world)]

        for name, work, _ in started(self.rank, world):
            work.wait()
        other = 1 - self.rank
        if root:
            dist.send(torch.zeros(kSize), other)
            dist.recv(torch.zeros(kSize), other)
            dist.send(torch.zeros(kSize), other)
        else:
            dist.recv(torch.zeros(kSize), other)
            dist.send(torch.zeros(kSize), other)
            dist.recv(torch.zeros(kSize))
        dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,)))
        dist.all_reduce_coalesced([torch.zeros(3), torch.zeros(4)])
        dist.all_gather_coalesced([[torch.zeros(3), torch.zeros(4)] for _ in range(world)],
                                  [torch.zeros(3), torch.zeros(4)])

    def expected_names(self):
        names = ["all_gather", "all_gather", "all_reduce", "all_reduce", "all_to_all", "barrier", "broadcast", "gather",
                 "reduce", "scatter", "sparse_all_reduce", "send", "recv"]
        names.append("recvAnySource" if self.rank == 1 else "send")
        return sorted(names)

    def check_names(self, events):
        prefix = backend() + ":"
        names = sorted(event.name.removeprefix(prefix) for event in events if event.name.startswith(prefix))
        beyond_gloo = [name for name in names if name in ("_all_gather_base", "reduce_scatter", "_reduce_scatter_base")]
        for name in beyond_gloo:
            names.remove(name)
        self.assertEqual(names, self.expected_names())
        if backend() != "gloo":
            self.assertEqual(beyond_gloo, ["_all_gather_base", "_reduce_scatter_base", "reduce_scatter"])

    @on_ranks(2)
    def test_the_autograd_profiler_shows_each_call(self):
        with torch.autograd.profiler.profile(record_shapes=True) as result:
            self.run_everything()
        self.check_names(result.function_events)

    @on_ranks(2)
    def test_the_new_profiler_shows_each_call(self):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as result:
            self.run_everything()
        self.check_names(result.events())

    @on_ranks(2)
    def test_events_are_asynchronous_and_have_shapes(self):
        with torch.autograd.profiler.profile(record_shapes=True) as result:
            dist.all_reduce(torch.zeros(3, 5))
            dist.all_reduce_coalesced([torch.zeros(3), torch.zeros(4)])
        events = [event for event in result.function_events if event.name == f"{backend()}:all_reduce"]
        self.assertEqual([event.input_shapes for event in events], [[[3, 5]], [[3], [4]]])
        for event in events:
            self.assertTrue(event.is_async)
            self.assertGreater(event.time_range.elapsed_us(), 0)

    @on_ranks(2)
    def test_an_event_lasts_until_its_call_is_complete(self):
        if self.rank == 1:
            time.sleep(0.3)
        with torch.autograd.profiler.profile() as result:
            dist.barrier()
        lengths = [event.time_range.elapsed_us() for event in result.function_events
                   if event.name == f"{backend()}:barrier"]
        self.assertEqual(len(lengths), 1)
        if self.rank == 0:
            self.assertGreater(lengths[0], 200_000)
