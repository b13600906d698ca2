"""What `make install-torch` leaves: a package that Python's tools know, that PyTorch finds by itself, and that says so
when it does not fit."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from ranks import backend, kTorch

kRoot = pathlib.Path(__file__).resolve().parents[3]

kUse = """
import tempfile, torch.distributed as dist, torch
{}
dist.init_process_group("banyan", init_method="file://" + tempfile.mkdtemp() + "/meeting", rank=0, world_size=1)
mine = torch.ones(3)
dist.all_reduce(mine)
dist.destroy_process_group()
import banyan_torch
assert issubclass(banyan_torch.Error, getattr(dist, "DistBackendError", RuntimeError))
print("from", banyan_torch.__path__[0])
"""


@unittest.skipUnless(backend() == "banyan", "only Banyan is installed so")
class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.install()

    def install(self, code=0):
        import banyan_torch

        result = subprocess.run([kRoot / "tools" / "install-torch", banyan_torch.__path__[0], self.folder], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                env={**os.environ, "BANYAN_PYTHON": sys.executable})
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def run_python(self, program, code=0):
        result = subprocess.run([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE, check=False,
                                stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def test_it_works_from_there(self):
        imports = "" if kTorch >= (2, 5) else "import banyan_torch"  # later versions find it by themselves
        self.assertIn(f"from {self.folder}", self.run_python(kUse.format(imports)))

    def test_pythons_tools_know_it_and_all_its_files(self):
        self.install()  # again: instead of what is there
        self.assertEqual(len(list(self.folder.glob("*.dist-info"))), 1)
        (info,) = self.folder.glob("banyan_torch-*.dist-info")
        with open(info / "RECORD", encoding="utf-8") as file:
            recorded = {row[0] for row in csv.reader(file)}
        present = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
        self.assertEqual(recorded, present)
        said = self.run_python("import importlib.metadata as m; print(m.version('banyan-torch'), m.entry_points())")
        self.assertIn("banyan_torch_autoload:register", said)

    def test_a_build_for_others_says_so_and_harms_nobody(self):
        path = self.folder / "banyan_torch" / "_built_for.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('TORCH = "', 'TORCH = "9.'), encoding="utf-8")
        said = self.run_python("import banyan_torch", code=1)
        self.assertRegex(said, r"ImportError: banyan_torch was built for PyTorch 9\.\S+ and Python \S+, but this is")
        self.assertIn("make install-torch BANYAN_PYTHON=", said)
        self.assertIn("fine", self.run_python("import torch; print('fine')"))
