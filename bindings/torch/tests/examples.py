"""Starts the programs of examples/torch as their users do.

Environment: BANYAN_BINARY, the path of `banyan`; without it, PATH counts.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

import ranks

kExamples = pathlib.Path(__file__).resolve().parents[3] / "examples" / "torch"
kLimit = 120.0  # seconds for one program: ten times what it takes on an idle machine


def banyan():
    """The path of the command line; skips the test where there is none."""
    path = os.environ.get("BANYAN_BINARY") or shutil.which("banyan")
    if path is None:
        raise unittest.SkipTest("there is no banyan: neither BANYAN_BINARY nor PATH leads to it")
    return path


def python(program, *arguments):
    """The words that start an example over the backend under test."""
    return [sys.executable, str(kExamples / program), "--backend", ranks.backend(), *map(str, arguments)]


def run(*command, environment=None):
    """(exit code, output and errors together). What is left of the command after kLimit seconds, or when the test is
    interrupted, is killed; raises subprocess.TimeoutExpired, which shows what was said until then."""
    process = subprocess.Popen(list(map(str, command)), env={**os.environ, **(environment or {})}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=kLimit)
        return process.returncode, output
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


def losses_of(test, path, output):
    """What train_ddp.py wrote: a row per step, a number per rank."""
    test.assertTrue(os.path.exists(path), f"no losses were written; the program said: {output}")
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def plans_of(output):
    """What Banyan's rank 0 logged of its plans for allreduces (BANYAN_LOG=debug): one line for each size."""
    return sorted(set(re.findall(r"rank 0 debug: (allreduce of .*)", output)))
