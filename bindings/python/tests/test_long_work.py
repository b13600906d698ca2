"""Long work: Ctrl-C ends it, callbacks hear of it, other threads go on."""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import banyan

# Plans for many seconds on any machine.
LONG = ("allgather", "random:n=2048,links=16384,seed=3")  # 8 s; all of these tests end it early


class Interrupts(unittest.TestCase):
    def interrupted(self, call):
        """Runs `call` in a process of its own, which is interrupted when it has begun; returns what it says."""
        program = f"""
import banyan, sys, time
def heard(what, fraction):
    print("working", flush=True)
try:
    {call}
    print("came to its end", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(bool(banyan.plan("allgather", "full:3@1GB/s").verify()), flush=True)  # all is well afterwards
"""
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "working\n")
        process.send_signal(signal.SIGINT)
        said = time.monotonic()
        lines = process.stdout.read().splitlines()
        self.assertEqual(process.wait(), 0)
        self.assertLess(time.monotonic() - said, 20)
        return [line for line in lines if line != "working"]

    def test_planning(self):
        self.assertEqual(self.interrupted(f"banyan.plan(*{LONG!r}, progress=heard)"), ["interrupted", "True"])

    def test_the_bound_of_a_large_fabric(self):
        self.assertEqual(
            self.interrupted("banyan.bound('allgather', 'random:n=8192,links=65536,seed=3', progress=heard)"),
            ["interrupted", "True"])

    def test_simulating(self):
        self.assertEqual(
            self.interrupted("banyan.predict('allgather', 'torus:8x8@1GB/s', '4GiB', slice='16KiB', fold=False, "
                             "progress=lambda what, done: what == 'simulating' and heard(what, done))"),
            ["interrupted", "True"])

    def test_a_training_step(self):
        self.assertEqual(
            self.interrupted("banyan.predict_step('gpt3-175b', 'dgx-a100:16', tp=8, pp=8, dp=2, global_batch=192, "
                             "recompute='full', fold=False, collectives='messages', progress=heard)"),
            ["interrupted", "True"])


class Callbacks(unittest.TestCase):
    def test_they_hear_of_every_simulation_of_a_step(self):
        heard = []
        banyan.predict_step(None, "dgx-a100:1", layers=2, hidden=512, dp=2, global_batch=2,
                            events=["1us gpu0-nvsw0=1GB/s"], what_if=True,
                            progress=lambda what, fraction: heard.append(what))
        self.assertEqual(list(dict.fromkeys(heard)),
                         ["simulating", "simulating each job alone", "asking what would help"])

    def test_they_hear_of_the_phases_in_their_order(self):
        heard = []
        banyan.plan("allgather", "dgx-a100:2", progress=lambda what, fraction: heard.append((what, fraction)))
        phases = list(dict.fromkeys(what for what, _ in heard))
        self.assertEqual(phases, ["computing the bound", "computing capacities", "packing trees", "verifying the plan"])
        self.assertTrue(all(0 <= fraction <= 1 for _, fraction in heard))

    def test_what_they_raise_ends_the_work(self):
        class Enough(Exception):
            pass

        def stop(what, fraction):
            raise Enough(what)

        with self.assertRaisesRegex(Enough, "computing the bound"):
            banyan.plan("allgather", "dgx-a100:2", progress=stop)
        self.assertTrue(banyan.plan("allgather", "dgx-a100:2").verify())


class Threads(unittest.TestCase):
    def test_others_go_on_while_one_plans(self):
        planned = threading.Event()
        steps = 0

        def heard(what, fraction):
            if planned.is_set():
                raise KeyboardInterrupt  # it has been long enough

        def plan():
            try:
                banyan.plan(*LONG, progress=heard)
            except KeyboardInterrupt:
                pass

        thread = threading.Thread(target=plan)
        thread.start()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            steps += 1
            time.sleep(0.001)
        self.assertTrue(thread.is_alive())
        planned.set()
        thread.join()
        self.assertGreater(steps, 20)  # with the lock held, there would have been one or two

    def test_plans_may_be_made_at_the_same_time(self):
        fabrics = ["dgx-a100:2", "mi250:2", "torus:4x4@1GB/s", "full:5@1GB/s"]
        alone = [banyan.plan("allgather", fabric).to_json() for fabric in fabrics]
        together = [None] * len(fabrics)

        def work(number):
            together[number] = banyan.plan("allgather", fabrics[number]).to_json()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(fabrics))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(alone, together)


if __name__ == "__main__":
    unittest.main()
