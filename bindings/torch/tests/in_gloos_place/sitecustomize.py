"""Puts Banyan in Gloo's place, so that PyTorch's own tests of Gloo test Banyan: see pytorch_own.py.

Python imports this module when it starts, if its folder is in PYTHONPATH; so all processes of a test have it, however
they were started. Where a program asks for "gloo", by name or as a default or by ProcessGroupGloo(), it gets a group of
"banyan", made the way any program makes one. torch.distributed goes on calling it "gloo": much of PyTorch's tests and
some of PyTorch runs only for backends that they know by name.

PYTORCH_OWN_GROUPS names a file that gets a byte for each group that was made.
"""

import functools
import importlib.abc
import importlib.util
import inspect
import os
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Has modules changed when they have been imported."""

    def __init__(self, changes):
        self._changes = changes  # functions of the module, by its name

    def find_spec(self, name, path, target=None):
        change = self._changes.pop(name, None)  # and leave finding it to the others
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def _change_torch(c10d):
    c10d._new_process_group_helper = _of_banyan(c10d, c10d._new_process_group_helper)
    if hasattr(c10d, "ProcessGroupGloo"):
        gloo = c10d.ProcessGroupGloo
        c10d.ProcessGroupGloo = _by_class(c10d, gloo)
        c10d._create_process_group_wrapper = _with_gloo(c10d, gloo, c10d._create_process_group_wrapper)
    if hasattr(c10d, "BackendConfig"):  # PyTorch 2: who names no backend gets one for each device
        c10d.BackendConfig.__init__ = _by_default(c10d, c10d.BackendConfig.__init__)


def _change_tests(tests):
    """They look for "gloo:all_reduce" in profiles."""
    find = tests.get_profiling_event

    @functools.wraps(find)
    def find_ours(name, *arguments, **options):
        events = find(name.replace("gloo:", "banyan:"), *arguments, **options)
        for event in events:
            event.name = event.name.replace("banyan:", "gloo:")
        return events

    tests.get_profiling_event = find_ours


def _of_banyan(c10d, make):
    """`make`, which makes all groups of torch.distributed, with "banyan" for "gloo"."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def make_of_banyan(*arguments, **options):
        import banyan_torch

        given = signature.bind(*arguments, **options).arguments
        name = str(given["backend"])
        given["backend"] = c10d.Backend(name.lower().replace("gloo", "banyan"))
        for choice in ("pg_options", "backend_options"):
            if given.get(choice) is not None and not isinstance(given[choice], banyan_torch.Options):
                given[choice] = None
        made = make(**given)
        group = made[0] if isinstance(made, tuple) else made
        groups = c10d._pg_map if hasattr(c10d, "_pg_map") else c10d._world.pg_map
        if group in groups:
            groups[group] = (c10d.Backend(name), groups[group][1])
            if "banyan" in given["backend"] or name == "undefined":
                _note()
        return made

    return make_of_banyan


def _by_default(c10d, initialize):
    @functools.wraps(initialize)
    def initialize_with_banyan(self, backend):
        import banyan_torch  # noqa: F401 (registers the backend)

        initialize(self, backend)
        if str(backend) == "undefined":
            chosen = self.device_backend_map
            chosen.update({device: c10d.Backend("banyan") for device, name in chosen.items() if name == "gloo"})

    return initialize_with_banyan


def _by_class(c10d, gloo):
    """ProcessGroupGloo, which makes groups of Banyan."""

    class ProcessGroupGloo(gloo):
        def __new__(cls, store, rank, size, options=None, timeout=None, **more):
            import datetime

            import banyan_torch

            class Asked:
                group_rank, group_size, group_id, global_ranks_in_group = rank, size, "", []

            Asked.store = store
            Asked.timeout = next((time for time in (timeout, options, getattr(options, "_timeout", None))
                                  if isinstance(time, datetime.timedelta)), datetime.timedelta(minutes=30))
            _note()
            return banyan_torch._create(Asked, None)

    if hasattr(c10d, "BackendConfig"):  # tests make devices of Gloo, and use them for nothing
        gloo.__bases__[0].create_device = staticmethod(gloo.create_device)
    if hasattr(c10d, "_get_object_coll_device"):  # takes objects of this class for groups, and of no other backend's
        device_of = c10d._get_object_coll_device
        c10d._get_object_coll_device = functools.wraps(device_of)(
            lambda group=None: "cpu" if isinstance(group, gloo.__bases__[0]) else device_of(group))
    return ProcessGroupGloo


def _with_gloo(c10d, gloo, wrap):
    """`wrap`, which puts a group into one that checks its calls by Gloo, whatever the group is made of."""

    @functools.wraps(wrap)
    def wrap_with_gloo(wrapped_pg, *arguments, **options):
        by_class, c10d.ProcessGroupGloo = c10d.ProcessGroupGloo, gloo
        try:
            return wrap(wrapped_pg, *arguments, **options)
        finally:
            c10d.ProcessGroupGloo = by_class

    return wrap_with_gloo


def _note():
    if "PYTORCH_OWN_GROUPS" in os.environ:
        with open(os.environ["PYTORCH_OWN_GROUPS"], "ab") as file:
            file.write(b".")


sys.meta_path.insert(0, _Finder({
    "torch.distributed.distributed_c10d": _change_torch,
    "torch.testing._internal.distributed.distributed_test": _change_tests,
}))
