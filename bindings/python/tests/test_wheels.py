"""Both packages by pip, in virtual environments: banyan in one that does not see the system's packages, with pybind11 from
a folder of wheels; banyan-torch in one that does, for the system's PyTorch. Nothing comes from an index.

Environment: BANYAN_WHEEL_BUILD, the folder in which CMake builds, for a second run in seconds (by default a temporary
one); BANYAN_WHEEL_CMAKE_ARGS, more arguments for cmake.
"""
import base64
import csv
import email
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile

TREE = pathlib.Path(__file__).resolve().parents[3]
VERSION = subprocess.run([TREE / "packaging" / "version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
NO_PYBIND11 = importlib.util.find_spec("pybind11") is None
NO_TORCH = importlib.util.find_spec("torch") is None


def run(command, **options):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)


def pybind11_wheel(folder):
    """The system's pybind11 as the wheel that an index has."""
    import pybind11
    name = f"pybind11-{pybind11.__version__}"
    about = f"Metadata-Version: 2.1\nName: pybind11\nVersion: {pybind11.__version__}\n"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        archive.writestr("pybind11/__init__.py", "import os\n\n\ndef get_include():\n"
                         "    return os.path.join(os.path.dirname(__file__), 'include')\n")
        for header in pathlib.Path(pybind11.get_include(), "pybind11").rglob("*.h"):
            archive.write(header, f"pybind11/include/{header.relative_to(pybind11.get_include())}")
        archive.writestr(f"{name}.dist-info/METADATA", about)
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        rows = [f"{each},,\n" for each in (*archive.namelist(), f"{name}.dist-info/RECORD")]
        archive.writestr(f"{name}.dist-info/RECORD", "".join(rows))


@unittest.skipIf(importlib.util.find_spec("ensurepip") is None, "python3-venv is not installed")
@unittest.skipIf(NO_PYBIND11, "pybind11 is not installed")
class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="banyan-wheels-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.build = pathlib.Path(os.environ.get("BANYAN_WHEEL_BUILD", cls.folder / "build"))
        cls.wheels = cls.folder / "wheels"
        cls.venv, cls.ordinary, cls.index = cls.folder / "venv", cls.folder / "ordinary", cls.folder / "index"
        cls.index.mkdir()
        pybind11_wheel(cls.index)
        # --without-pip and the interpreter's own pip would do, too; users have it as it comes.
        for venv, options in ((cls.venv, ["--system-site-packages"]), (cls.ordinary, [])):
            told = run([sys.executable, "-m", "venv", *options, venv])
            assert told.returncode == 0, told.stdout
        cls.made = {}
        for name, source in (("banyan", TREE), ("banyan-torch", TREE / "bindings" / "torch")):
            if name == "banyan-torch" and NO_TORCH:
                continue
            told = cls.pip("wheel", source, "--wheel-dir", cls.wheels, "--config-settings", f"build-dir={cls.build}",
                           "--config-settings", f"cmake-args={os.environ.get('BANYAN_WHEEL_CMAKE_ARGS', '')}",
                           "--no-deps", venv=cls.ordinary if name == "banyan" else cls.venv)
            assert told.returncode == 0, told.stdout
            (cls.made[name],) = cls.wheels.glob(f"{name.replace('-', '_')}-{VERSION}-*.whl")

    @classmethod
    def pip(cls, *arguments, venv=None, **environment):
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        variables.update({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(cls.index), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                          **environment})
        return run([(venv or cls.venv) / "bin" / "python", "-m", "pip", *arguments], env=variables)

    def python(self, program):
        variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH",)}
        return run([self.venv / "bin" / "python", "-c", program], cwd=self.folder, env=variables)

    def installed(self):
        return {path.relative_to(self.venv) for path in self.venv.rglob("*") if "__pycache__" not in path.parts}

    def test_names_say_for_which_python_and_system_they_are(self):
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        platform = sysconfig.get_platform().replace("-", "_")
        for name, wheel in self.made.items():
            self.assertEqual(wheel.name, f"{name.replace('-', '_')}-{VERSION}-{tag}-{tag}-{platform}.whl")

    def test_records_list_every_file_with_its_hash(self):
        for wheel in self.made.values():
            with zipfile.ZipFile(wheel) as archive:
                (record,) = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
                rows = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}
                self.assertEqual(set(rows), set(archive.namelist()))
                for name, (digest, size) in rows.items():
                    if name == record:
                        continue
                    contents = archive.read(name)
                    hashed = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={hashed}", str(len(contents))), name)

    def test_metadata_say_version_licence_and_what_is_needed(self):
        for name, wheel in self.made.items():
            with zipfile.ZipFile(wheel) as archive:
                (path,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
                about = email.message_from_bytes(archive.read(path))
                for licence in ("LICENSE", "NOTICE"):
                    self.assertIn(path.replace("METADATA", f"licenses/{licence}"), archive.namelist())
            self.assertEqual((about["Name"], about["Version"], about["License"]), (name, VERSION, "Apache-2.0"))
            self.assertEqual(about.get_all("Requires-Dist", []), [])

    def test_modules_are_stripped_and_nothing_foreign_is_in_them(self):
        for name, wheel in self.made.items():
            with zipfile.ZipFile(wheel) as archive:
                modules = [each for each in archive.namelist() if each.endswith(".so")]
                self.assertEqual(len(modules), 1)
                tops = {each.split("/")[0] for each in archive.namelist()}
                self.assertTrue(all(top.startswith(name.replace("-", "_")) for top in tops), tops)
                path = archive.extract(modules[0], self.folder / "extracted")
            if shutil.which("file"):
                self.assertNotIn("not stripped", run(["file", path]).stdout)

    def test_what_is_installed_works_and_goes_again(self):
        before = self.installed()
        told = self.pip("install", *self.made.values())
        self.assertEqual(told.returncode, 0, told.stdout)
        plans = self.python("import banyan\n"
                            "plan = banyan.plan('allgather', 'dgx-a100:2')\n"
                            "print(banyan.__file__, plan.throughput, bool(plan.verify()))")
        self.assertEqual(plans.returncode, 0, plans.stdout)
        self.assertIn(str(self.venv), plans.stdout)
        self.assertIn("1040000000000/3 True", plans.stdout)
        known = self.python("import banyan, importlib.metadata as m; print(m.version('banyan'), banyan.__version__)")
        self.assertEqual(known.stdout.split(), [VERSION, VERSION])
        if "banyan-torch" in self.made:
            tested = self.python("import banyan, banyan_torch, torch.distributed as dist, tempfile\n"
                                 "dist.init_process_group('banyan', init_method='file://' + tempfile.mktemp(), rank=0, "
                                 "world_size=1)\n"
                                 "print(dist.get_backend(), banyan_torch.__file__)")
            self.assertEqual(tested.returncode, 0, tested.stdout)
            self.assertIn(f"banyan {self.venv}", tested.stdout)
        told = self.pip("uninstall", "--yes", *self.made)
        self.assertEqual(told.returncode, 0, told.stdout)
        self.assertEqual(self.installed(), before)

    def test_package_tools_find_nothing_wrong(self):
        told = self.pip("install", self.made["banyan"], venv=self.ordinary)
        self.assertEqual(told.returncode, 0, told.stdout)
        told = self.pip("check", venv=self.ordinary)
        self.assertEqual((told.returncode, told.stdout), (0, "No broken requirements found.\n"))
        if shutil.which("twine"):
            told = run(["twine", "check", "--strict", *self.made.values()])
            self.assertEqual(told.returncode, 0, told.stdout)

    def test_the_systems_pybind11_serves_without_an_index(self):
        told = self.pip("wheel", TREE, "--wheel-dir", self.folder / "offline", "--config-settings",
                        f"build-dir={self.build}", "--no-deps", "--no-build-isolation", PIP_FIND_LINKS="")
        self.assertEqual(told.returncode, 0, told.stdout)

    def test_two_builds_of_one_tree_are_the_same_wheel(self):
        again = self.folder / "again"
        told = self.pip("wheel", TREE, "--wheel-dir", again, "--config-settings", f"build-dir={self.build}",
                        "--config-settings", f"cmake-args={os.environ.get('BANYAN_WHEEL_CMAKE_ARGS', '')}", venv=self.ordinary)
        self.assertEqual(told.returncode, 0, told.stdout)
        (wheel,) = again.glob("*.whl")
        self.assertEqual(wheel.read_bytes(), self.made["banyan"].read_bytes())

    def test_what_is_missing_is_said_in_one_line(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("c++", "make"):
            (tools / tool).symlink_to(shutil.which(tool))
        told = self.pip("wheel", TREE, "--wheel-dir", self.folder / "none", PATH=str(tools))
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("banyan: cmake is missing; install it (Debian: cmake)\n", told.stdout)
        self.assertNotIn("Traceback", told.stdout)

    def test_source_archives_hold_the_tree(self):
        if not (TREE / ".git").exists():
            self.skipTest("the tree is no checkout")
        program = ("import os, sys; os.chdir(sys.argv[1]); sys.path.insert(0, 'bindings/python')\n"
                   "import wheel_backend; print(wheel_backend.build_sdist(sys.argv[2]))")
        told = run([sys.executable, "-c", program, TREE, self.folder])
        self.assertEqual(told.stdout.strip(), f"banyan-{VERSION}.tar.gz")
        listed = run(["tar", "-tzf", self.folder / f"banyan-{VERSION}.tar.gz"]).stdout.splitlines()
        for name in ("pyproject.toml", "PKG-INFO", "VERSION", "CMakeLists.txt", "bindings/python/wheels.py",
                     "docs/python.md"):
            self.assertIn(f"banyan-{VERSION}/{name}", listed)


if __name__ == "__main__":
    unittest.main()
