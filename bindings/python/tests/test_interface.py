"""The package says of itself what it is: documentation, types, names."""
import inspect
import os
import shutil
import subprocess
import sys
import typing
import unittest

import banyan
from banyan import _core


class Interface(unittest.TestCase):
    def test_everything_public_is_documented(self):
        for name in banyan.__all__:
            thing = getattr(banyan, name)
            if name == "__version__":
                continue
            self.assertTrue(inspect.getdoc(thing), name)
            if not inspect.isclass(thing) or issubclass(thing, tuple):
                continue
            for member, value in vars(thing).items():
                if member.startswith("_") or not (callable(value) or isinstance(value, (property, classmethod))):
                    continue
                self.assertTrue(inspect.getdoc(getattr(thing, member)), f"{name}.{member}")

    def test_everything_public_has_types(self):
        for name in banyan.__all__:
            thing = getattr(banyan, name)
            functions = [thing] if inspect.isfunction(thing) else [
                value for value in vars(thing).values() if inspect.isfunction(value)] if inspect.isclass(thing) else []
            for function in functions:
                if function.__module__ is None or not function.__module__.startswith("banyan"):
                    continue  # of NamedTuple
                if function.__name__ == "__annotate__":
                    continue  # since Python 3.14 the interpreter puts it into every class with annotations
                hints = typing.get_type_hints(function)
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.name not in ("self", "cls"):
                        self.assertIn(parameter.name, hints, f"{name}.{function.__name__}")
                self.assertIn("return", hints, f"{name}.{function.__name__}")

    def test_the_stub_and_the_module_agree(self):
        import ast
        with open(os.path.join(os.path.dirname(banyan.__file__), "_core.pyi"), encoding="utf-8") as file:
            stub = ast.parse(file.read())
        said = {"__version__": set()}
        for node in stub.body:
            if isinstance(node, ast.ClassDef):
                said[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)} - {"__init__"}
                for each in node.body:
                    if not isinstance(each, ast.FunctionDef):
                        continue
                    member = getattr(getattr(_core, node.name), each.name)
                    self.assertEqual(isinstance(member, property), bool(each.decorator_list) and not callable(member))
                    if not isinstance(member, property):
                        self.check_arguments(each, member)
            elif isinstance(node, ast.FunctionDef):
                said[node.name] = set()
                self.check_arguments(node, getattr(_core, node.name))
        there = {}
        for name, thing in vars(_core).items():
            if name.startswith("__") and name != "__version__":
                continue
            there[name] = {member for member in vars(thing) if not member.startswith("_")} if inspect.isclass(
                thing) else set()
        self.assertEqual(said, there)

    def check_arguments(self, stub, function):
        """pybind11 writes the names of arguments into the first line of the documentation."""
        line = function.__doc__.splitlines()[0]
        for argument in stub.args.args:
            self.assertIn(f"{argument.arg}: ", line.replace("self: ", "self: "), stub.name)

    def test_type_checkers_find_nothing(self):
        if shutil.which("mypy") is None:
            self.skipTest("mypy is not installed")
        folder = os.path.dirname(banyan.__file__)
        told = subprocess.run(["mypy", "--strict", "--python-executable", sys.executable, "--cache-dir", os.devnull,
                               folder], capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stdout)

    def test_the_package_is_marked_as_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(banyan.__file__), "py.typed")))

    def test_the_version_is_that_of_the_module(self):
        self.assertRegex(banyan.__version__, r"^\d+\.\d+\.\d+")

    def test_values_say_what_they_are(self):
        plan = banyan.plan("allgather", "dgx-a100:2")
        self.assertEqual(repr(plan), "<banyan.Plan allgather on dgx-a100:2 by forest: 346.67 GB/s, optimal>")
        self.assertEqual(repr(plan.fabric), "<banyan.Fabric dgx-a100:2: 16 ranks, 3 switches, 64 links>")
        self.assertEqual(repr(plan.bound),
                         "<banyan.Bound 346.67 GB/s: rank gpu0 must receive 15 of 16 shards over 325 GB/s>")
        self.assertEqual(repr(plan.verify()), "<banyan.Verdict valid>")
        self.assertEqual(repr(plan.fabric.links[0])[:6], "Link(g")
        sweep = banyan.sweep("allreduce", "mi250:2", "256KiB:1MiB")
        self.assertEqual(repr(sweep), "<banyan.Sweep of 3 sizes: allreduce on mi250:2, 256 KiB to 1 MiB>")
        self.assertIn("of 256 KiB to 1 MiB on mi250:2", sweep.title)

    def test_notebooks_show_tables(self):
        compared = banyan.compare("allgather", "dgx-a100:2", ["1MiB", "1GiB"])
        page = compared._repr_html_()
        self.assertTrue(page.startswith("<p>allgather on dgx-a100:2</p><table><tr><th>planner</th>"), page[:200])
        self.assertEqual(page.count("<tr>"), 1 + len(compared))
        self.assertIn('<td>bfb</td><td colspan="7">not here: ', page)
        self.assertIn("<td>346.67 GB/s</td><td>100.0 %</td>", page)

    def test_completion_shows_what_the_package_has(self):
        import types
        shown = {name for name in dir(banyan) if not name.startswith("_")}
        modules = {name for name in shown if isinstance(getattr(banyan, name), types.ModuleType)}
        self.assertEqual((shown, modules), (set(banyan.__all__) - {"__version__"}, set()))


if __name__ == "__main__":
    unittest.main()
