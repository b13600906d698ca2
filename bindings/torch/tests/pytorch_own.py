#!/usr/bin/env python3
"""Runs PyTorch's own distributed tests with Gloo, and again with Banyan in Gloo's place, and compares test by test.

    pytorch_own.py --tests pytorch-2.6.0/test [--results FOLDER] [--backend gloo|banyan] [--seconds N]
                   [-k PATTERN]... FILE[:CLASS[.TEST]]...

PyTorch's tests are not installed with it: get the sources of the same release (Debian: `apt-get source pytorch`). They
want the Python packages expecttest (python3-expecttest from Debian 13 on) and setuptools. FILE is below
test/distributed, such as test_device_mesh.py; without any, all of the list below. PYTHONPATH must lead to the package
banyan_torch.

Prints one line for each file, then the tests that fail with one of the two only. Tests that make no group at all, on
purpose (the "threaded" and "fake" groups of PyTorch) or because they test something else, are counted apart. A file has
--seconds for each backend (default 1200), a test 60. --results keeps what each test said; with it, a run that was
broken off goes on. Processes of tests are forked from one that has imported PyTorch already: some six times as fast as
PyTorch's way, with the same environment.
"""

import argparse
import dataclasses
import importlib
import multiprocessing
import multiprocessing.context
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

kFolder = pathlib.Path(__file__).resolve().parent

# Files with tests for CPUs that make groups; those that a release has. What is in _tensor/ here is in tensor/ later.
kFiles = """
test_backends.py test_c10d_common.py test_c10d_gloo.py test_c10d_object_collectives.py test_c10d_pypg.py
test_c10d_spawn_gloo.py test_collective_utils.py test_device_mesh.py test_distributed_spawn.py test_functional_api.py
test_pg_wrapper.py test_store.py
algorithms/test_join.py algorithms/ddp_comm_hooks/test_ddp_hooks.py algorithms/quantization/test_quantization.py
optim/test_zero_redundancy_optimizer.py optim/test_named_optimizer.py optim/test_apply_optimizer_in_backward.py
_composable/test_replicate.py _composable/test_checkpoint.py _composable/test_contract.py
_composable/fsdp/test_fully_shard_init.py _composable/fsdp/test_fully_shard_state.py
_composable/fsdp/test_fully_shard_autograd.py _composable/fsdp/test_fully_shard_training.py
_tensor/test_api.py _tensor/test_common_rules.py _tensor/test_convolution_ops.py _tensor/test_dtensor.py
_tensor/test_dtensor_compile.py _tensor/test_embedding_ops.py _tensor/test_experimental_ops.py _tensor/test_init.py
_tensor/test_math_ops.py _tensor/test_matrix_ops.py _tensor/test_op_strategy.py _tensor/test_optimizers.py
_tensor/test_pointwise_ops.py _tensor/test_random_ops.py _tensor/test_redistribute.py _tensor/test_tensor_ops.py
_tensor/test_utils.py _tensor/test_view_ops.py _tensor/debug/test_comm_mode.py
_tensor/debug/test_comm_mode_features.py _tensor/experimental/test_local_map.py
_tensor/experimental/test_register_sharding.py _tensor/experimental/test_tp_transform.py
tensor/parallel/test_parallelize_api.py tensor/parallel/test_tp_examples.py tensor/parallel/test_tp_random_state.py
tensor/parallel/test_tp_style.py
checkpoint/test_checkpoint.py checkpoint/test_dtensor_checkpoint.py checkpoint/test_dtensor_resharding.py
checkpoint/test_file_system_checkpoint.py checkpoint/test_file_system_checkpoint_cpu.py
checkpoint/test_format_utils.py checkpoint/test_planner.py checkpoint/test_save_load_api.py
checkpoint/test_state_dict.py checkpoint/test_state_dict_utils.py checkpoint/test_tp_checkpoint.py
checkpoint/test_utils.py checkpoint/e2e/test_e2e_save_and_load.py
_shard/checkpoint/test_checkpoint.py _shard/checkpoint/test_file_system_checkpoint.py _shard/test_sharder.py
_shard/sharded_tensor/test_sharded_tensor.py _shard/sharding_plan/test_sharding_plan.py
pipelining/test_stage.py pipelining/test_schedule.py pipelining/test_schedule_multiproc.py
fsdp/test_fsdp_misc.py fsdp/test_fsdp_core.py fsdp/test_fsdp_apply.py fsdp/test_wrap.py fsdp/test_utils.py
""".split()


# ---- One file with one backend, in a process of its own ----

class WarmProcess(multiprocessing.context.ForkServerProcess):
    """A process with the environment of who starts it, which forked ones would not have."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._environment = dict(os.environ)

    def run(self):
        os.environ.clear()
        os.environ.update(self._environment)
        tests = sys.modules.get("torch.testing._internal.distributed.distributed_test")
        if tests is not None:  # was imported before its test was set up
            tests.INIT_METHOD = os.environ["INIT_METHOD"]
        without_replicated_tensors()
        super().run()


def without_replicated_tensors():
    """The tests of 1.13 switch on a part of DDP that cannot be imported with Python 3.11."""
    try:
        import torch.nn.parallel._replicated_tensor_ddp_utils as ddp
    except ImportError:
        return  # PyTorch 2
    try:
        importlib.import_module("torch.distributed._shard.replicated_tensor")
    except ValueError:
        ddp._set_ddp_with_replicated_tensor = lambda value: None


class WarmContext(multiprocessing.context.ForkServerContext):
    Process = WarmProcess


class Lines(unittest.TestResult):
    """Writes a line for each test that has ended: how, seconds, groups made, name, why."""

    def __init__(self, lines):
        super().__init__()
        self._lines = lines
        self._how = self._why = ""

    def startTest(self, test):
        super().startTest(test)
        self._start, self._groups = time.monotonic(), groups_made()
        self._how, self._why = "passed", ""
        print(f"==== {test.id()}", flush=True)

    def addFailure(self, test, err):
        self._fail(test, err)

    def addError(self, test, err):
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._fail(test, err)

    def addSkip(self, test, reason):
        if self._how != "failed":
            self._how, self._why = "skipped", str(reason)

    def addExpectedFailure(self, test, err):
        self._why = "as PyTorch expects"

    def addUnexpectedSuccess(self, test):
        self._how, self._why = "failed", "passes, though PyTorch expects it to fail"

    def stopTest(self, test):
        super().stopTest(test)
        self._line(test, time.monotonic() - self._start, groups_made() - self._groups)

    def _fail(self, test, err):
        text = self._exc_info_to_string(err, test)
        print(text, flush=True)
        errors = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Warning)\b.*", text, re.MULTILINE)
        self._how, self._why = "failed", errors[-1] if errors else text.strip().splitlines()[-1]
        if not isinstance(test, unittest.TestCase) or "setUpClass" in test.id():  # a class or a module
            self._line(test, 0, 0)

    def _line(self, test, seconds, groups):
        why = " ".join(self._why.split())[:200]
        print(self._how, f"{seconds:.1f}", groups, test.id(), why, sep="\t", file=self._lines, flush=True)


def groups_made():
    try:
        return os.path.getsize(os.environ["PYTORCH_OWN_GROUPS"])
    except OSError:
        return 0


def run_one(name, path, patterns, lines):
    """The tests of a file, or of what `name` says of it."""
    part = name.partition(":")[2]
    path = pathlib.Path(path)
    sys.argv = [str(path)]  # PyTorch looks at the arguments
    sys.path[:] = [place for place in sys.path if pathlib.Path(place).resolve() != kFolder]  # our test_dtensor.py
    import torch.multiprocessing

    multiprocessing.set_forkserver_preload(["torch.testing._internal.common_distributed", path.stem])
    get_context = torch.multiprocessing.get_context
    torch.multiprocessing.get_context = lambda how=None: WarmContext() if how == "spawn" else get_context(how)
    try:
        module = importlib.import_module(path.stem)
    except SystemExit:
        print("skipped", 0, 0, f"{path.stem}.*", "the file skips itself", sep="\t", file=lines, flush=True)
        return
    loader = unittest.TestLoader()
    if patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in patterns]
    tests = loader.loadTestsFromName(part, module) if part else loader.loadTestsFromModule(module)
    tests.run(Lines(lines))


# ---- All files with both ----

@dataclasses.dataclass
class Test:
    how: str
    seconds: float
    groups: int
    why: str


def read(path):
    """The tests of a file of results by their names."""
    tests = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        how, seconds, groups, name, why = (line + "\t" * 4).split("\t")[:5]
        tests[name] = Test(how, float(seconds), int(groups), why)
    return tests


def run_file(backend, name, arguments, results):
    """Runs a file and returns its results, those that are there from before if it had come to its end."""
    place = results / backend / name.replace("/", ".").replace(":", "-")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not pathlib.Path(f"{place}.ended").exists():
        run_anew(backend, name, arguments, place)
    return read(pathlib.Path(f"{place}.tests"))


def run_anew(backend, name, arguments, place):
    path = arguments.tests.resolve() / "distributed" / name.partition(":")[0]
    with tempfile.TemporaryDirectory() as scratch:
        for folder in ("init_dir", "test_dir", "barrier", "cwd"):
            os.mkdir(os.path.join(scratch, folder))
        paths = [str(path.parent), str(arguments.tests.resolve() / "distributed"), str(arguments.tests.resolve())]
        if backend == "banyan":
            paths.insert(0, str(kFolder / "in_gloos_place"))
        environment = dict(
            os.environ, BACKEND="gloo", WORLD_SIZE="3", TEMP_DIR=scratch, TMPDIR=scratch,
            INIT_METHOD=f"file://{scratch}/init_dir/shared_init_file", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60",
            PYTORCH_OWN_GROUPS=os.path.join(scratch, "groups"), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
            PYTORCH_PRINT_REPRO_ON_FAILURE="0", USE_LIBUV="0",
            PYTHONPATH=os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, os.path.abspath(__file__), "--tests", str(arguments.tests), "--one", str(path),
                   "--lines", f"{place}.tests", *[f"-k{pattern}" for pattern in arguments.patterns or ()], name]
        with open(f"{place}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, env=environment, cwd=os.path.join(scratch, "cwd"), stdout=log,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                how = f"exit code {process.wait(arguments.seconds)}"
            except subprocess.TimeoutExpired:
                how = f"not ended after {arguments.seconds} s"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
    if how == "exit code 0":
        pathlib.Path(f"{place}.ended").touch()
    else:
        print(f"{name} with {backend}: {how}; see {place}.log", flush=True)
        pathlib.Path(f"{place}.tests").touch()


def compare(name, gloo, banyan):
    """Prints the line of a file. Returns the names of the tests that differ."""
    ran = [test for test, outcome in banyan.items() if outcome.how != "skipped"]
    with_groups = [test for test in ran if banyan[test].groups or banyan[test].how == "failed"]
    failed = {which: [t for t in with_groups if t in outcomes and outcomes[t].how == "failed"]
              for which, outcomes in (("gloo", gloo), ("banyan", banyan))}
    print(f"| {name} | {len(with_groups)} | {len(ran) - len(with_groups)} | {len(banyan) - len(ran)} | "
          f"{len(failed['gloo'])} | {len(failed['banyan'])} | {sum(t.seconds for t in gloo.values()):.0f} / "
          f"{sum(t.seconds for t in banyan.values()):.0f} |", flush=True)
    return sorted(t for t in {**gloo, **banyan} if t not in gloo or t not in banyan or gloo[t].how != banyan[t].how)


def parse_arguments():
    parser = argparse.ArgumentParser(description="PyTorch's own distributed tests with Gloo and with Banyan")
    parser.add_argument("names", nargs="*", metavar="FILE[:CLASS[.TEST]]")
    parser.add_argument("--tests", type=pathlib.Path, required=True, help="the folder test of PyTorch's sources")
    parser.add_argument("--backend", choices=["gloo", "banyan"], help="with this one only")
    parser.add_argument("--results", type=pathlib.Path, help="where to keep what the tests said")
    parser.add_argument("--seconds", type=int, default=1200, help="for a file with a backend")
    parser.add_argument("-k", dest="patterns", action="append", metavar="PATTERN", help="only tests with such a name")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--lines", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.one:
        with open(arguments.lines, "w", encoding="utf-8") as lines:
            return run_one(arguments.names[0], arguments.one, arguments.patterns, lines)
    names = arguments.names or [name for name in dict.fromkeys(place.replace(*change) for place in kFiles
                                                               for change in (("", ""), ("_tensor/", "tensor/")))
                                if (arguments.tests / "distributed" / name).exists()]
    backends = [arguments.backend] if arguments.backend else ["gloo", "banyan"]
    results = (arguments.results or pathlib.Path(tempfile.mkdtemp(prefix="pytorch-own-"))).resolve()
    print("| file | run | run, no group | skipped | failed: Gloo | Banyan | seconds |\n|---|---|---|---|---|---|---|")
    differ = False
    for name in names:
        outcomes = {backend: run_file(backend, name, arguments, results) for backend in backends}
        gloo, banyan = (outcomes.get(backend, outcomes[backends[0]]) for backend in ("gloo", "banyan"))
        for test in compare(name, gloo, banyan):
            differ = True
            for which, tests in (("Gloo", gloo), ("Banyan", banyan)):
                found = tests.get(test, Test("not run", 0, 0, ""))
                print(f"  {test}: {which}: {found.how} {found.why}", flush=True)
    print(f"what the tests said is in {results}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
