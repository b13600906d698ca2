"""Installs what is built into folders of its own, builds programs of users against it, runs them, and removes it.

Usage: install_test.py BUILD CMAKE C_COMPILER CXX_COMPILER [unittest's arguments]
"""
import contextlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = SOURCE / "examples"
BUILD, CMAKE, CC, CXX = (pathlib.Path(sys.argv[1]), *sys.argv[2:5])
LISTS = ("installed_files.txt", "install_folders.txt")


def output_of(*command, fails=False, **options):
    """What the command writes to both its outputs; it must succeed, or fail where `fails` says so."""
    environment = {**os.environ, **options.pop("env", {})}
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=200, env=environment, **options)
    if (ended.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def paths_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@contextlib.contextmanager
def lists_kept():
    """The lists of what is installed are those of somebody's own installation: they are put back."""
    with tempfile.TemporaryDirectory(dir=BUILD) as aside:
        there = [name for name in LISTS if (BUILD / name).exists()]
        for name in there:
            shutil.move(BUILD / name, aside)
        try:
            yield
        finally:
            for name in LISTS:
                (BUILD / name).unlink(missing_ok=True)
            for name in there:
                shutil.move(pathlib.Path(aside) / name, BUILD)


class Installed(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="banyan-install-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.prefix = self.folder / "prefix"

    def install(self, *arguments, env={}):
        return output_of(CMAKE, "--install", BUILD, "--prefix", self.prefix, *arguments, env=env)

    def uninstall(self, fails=False):
        return output_of(CMAKE, f"-DBUILD={BUILD}", "-P", SOURCE / "packaging/uninstall.cmake", fails=fails)

    def library_folder(self):
        return next(self.prefix.rglob("libbanyan.so")).parent

    def pkg_config(self, *arguments):
        environment = {"PKG_CONFIG_PATH": str(self.library_folder() / "pkgconfig")}
        return output_of("pkg-config", *arguments, "banyan", env=environment).split()

    def run_on_two_ranks(self, program):
        environment = {"LD_LIBRARY_PATH": str(self.library_folder())}
        return output_of(self.prefix / "bin/banyan", "run", "-n", 2, "--", program, env=environment)

    def expect_programs_by_pkg_config(self, *options):
        flags = self.pkg_config(*options, "--cflags", "--libs")
        program = self.folder / "program"
        output_of(CC, EXAMPLES / "allreduce.c", *flags, "-o", program)
        self.assertIn("2 ranks agree: the mean at 3 is 3.5", self.run_on_two_ranks(program))
        output_of(CXX, "-std=c++20", EXAMPLES / "gradients.cc", *flags, "-o", program)
        self.assertIn("2 ranks agree on 8 layers", self.run_on_two_ranks(program))

    def test_is_used_by_pkg_config_wherever_it_is_moved(self):
        self.install()
        version = output_of(self.prefix / "bin/banyan", "--version").split()[1]
        self.assertEqual(self.pkg_config("--modversion"), [version.removesuffix(".dev0")])
        self.expect_programs_by_pkg_config()
        self.assertEqual(self.pkg_config("--variable=prefix"), [str(self.prefix)])
        moved = self.folder / "moved"
        self.prefix.rename(moved)
        self.prefix = moved
        folders = self.pkg_config("--define-prefix", "--cflags", "--libs-only-L")
        self.assertTrue(all(str(moved) in word for word in folders), folders)
        self.expect_programs_by_pkg_config("--define-prefix")

    def test_is_used_by_find_package_from_c_alone_and_from_both_languages(self):
        self.install()
        moved = self.folder / "moved"
        self.prefix.rename(moved)
        self.prefix = moved
        compilers = [f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", "-GNinja"]

        examples = next(moved.rglob("examples/CMakeLists.txt")).parent
        built = self.folder / "built"
        output_of(CMAKE, "-S", examples, "-B", built, f"-DCMAKE_PREFIX_PATH={moved}", *compilers)
        output_of(CMAKE, "--build", built)
        self.assertIn("2 ranks agree: the mean at 3 is 3.5", self.run_on_two_ranks(built / "allreduce"))
        self.assertIn("2 ranks agree on 8 layers", self.run_on_two_ranks(built / "gradients"))

        c_alone = self.folder / "c"
        c_alone.mkdir()
        (c_alone / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(c LANGUAGES C)\nfind_package(Banyan 0.2 REQUIRED)\n"
            f"add_executable(allreduce {EXAMPLES}/allreduce.c)\ntarget_link_libraries(allreduce Banyan::banyan)\n")
        output_of(CMAKE, "-S", c_alone, "-B", c_alone / "built", f"-DCMAKE_PREFIX_PATH={moved}", *compilers)
        output_of(CMAKE, "--build", c_alone / "built")
        self.assertIn("2 ranks agree", self.run_on_two_ranks(c_alone / "built/allreduce"))

        (c_alone / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(c LANGUAGES C)\nfind_package(Banyan 0.9 REQUIRED)\n")
        said = output_of(CMAKE, "-S", c_alone, "-B", c_alone / "later", f"-DCMAKE_PREFIX_PATH={moved}", *compilers,
                         fails=True)
        self.assertIn('compatible with requested version "0.9"', " ".join(said.split()))

    def test_needs_nothing_of_the_build(self):
        self.install()
        for path in (path for path in self.prefix.rglob("*") if path.is_file()):
            self.assertNotIn(os.fsencode(str(BUILD)), path.read_bytes(), f"{path} names the build folder")
        # `make install-torch` copies these. An empty element would be the current folder.
        for path in BUILD.glob("python/*/*.so"):
            self.assertNotRegex(output_of("readelf", "-d", path), r"R(UN)?PATH.*(\[:|::|:\])", f"{path}")
        libraries = [self.prefix / "bin/banyan", self.prefix / "bin/banyand", *self.prefix.rglob("*.so")]
        for library in libraries:
            self.assertNotRegex(output_of("readelf", "-d", library), "RPATH|RUNPATH", f"{library} has a path")
        self.assertIn("soname: [libbanyan.so.0]", output_of("readelf", "-d", self.library_folder() / "libbanyan.so"))
        names = sorted(path.name for path in self.library_folder().glob("libbanyan*"))
        version = self.pkg_config("--modversion")[0]
        self.assertEqual(names, ["libbanyan.so", "libbanyan.so.0", f"libbanyan.so.{version}"])
        headers = sorted(path.name for path in (self.prefix / "include/banyan").iterdir())
        self.assertEqual(headers, sorted(path.name for path in (SOURCE / "include/banyan").iterdir()))

    def test_python_packages_are_found_where_they_are_installed(self):
        self.install()
        for package in ("banyan", "banyan_torch"):
            with self.subTest(package):
                found = list(self.prefix.rglob(f"*-packages/{package}/__init__.py"))
                if not found:
                    self.skipTest(f"{package} is not part of this build")
                said = output_of("/usr/bin/python3", "-c", f"import {package}; print({package}.__file__)",
                                 env={"PYTHONPATH": str(found[0].parent.parent), "PYTHONDONTWRITEBYTECODE": "1"})
                self.assertEqual(said.strip(), str(found[0]))

    def test_uninstall_leaves_what_was_there(self):
        for destination in ("", str(self.folder / "staged place")):
            with self.subTest(DESTDIR=destination), lists_kept():
                env = {"DESTDIR": destination, "BANYAN_INSTALL_NOTES": "1"}
                root = pathlib.Path(destination + str(self.prefix))
                for folder in ("share/man/man1", "bin"):
                    (root / folder).mkdir(parents=True)
                (root / "bin/other").write_text("of somebody else")
                before = paths_in(self.folder)
                self.install(env=env)
                self.install(env=env)  # a second installation does not forget what the first one made
                self.assertGreater(len(paths_in(self.folder)), len(before) + 10)
                for module in root.rglob("*-packages/**/*.py"):
                    compiled = module.parent / "__pycache__" / f"{module.stem}.cpython-311.pyc"
                    compiled.parent.mkdir(exist_ok=True)
                    compiled.write_text("compiled by an interpreter")
                self.assertRegex(self.uninstall(), r"removed \d+ files")
                self.assertEqual(paths_in(self.folder), before)
                self.assertIn("Nothing to remove", self.uninstall(fails=True))
                shutil.rmtree(root)

    def test_uninstall_removes_what_make_install_wrote_and_nothing_else(self):
        """Packages of the same files: dpkg's must stay, whether they came instead of ours or beside them."""
        with lists_kept():
            self.install()
            self.install("--component", "runtime")
            self.assertIn("Nothing to remove", self.uninstall(fails=True))
            shutil.rmtree(self.prefix)
            self.install(env={"BANYAN_INSTALL_NOTES": "1"})
            program, modules = self.prefix / "bin/banyan", list(self.prefix.rglob("*-packages/banyan/_plan.py"))
            program.write_text("of a package")
            cache = None
            for module in modules:
                cache = module.parent.parent / "__pycache__/of_others.cpython-311.pyc"
                cache.parent.mkdir(exist_ok=True)
                cache.write_text("compiled")
            said = self.uninstall()
            self.assertIn(f"{program} is not as it was installed, and stays", said)
            left = [path for path in self.prefix.rglob("*") if not path.is_dir()]
            self.assertEqual(set(left), {program, *([cache] if cache else [])})

    def test_a_component_is_installed_alone(self):
        self.install("--component", "library")
        files = {path.name for path in self.prefix.rglob("*") if not path.is_dir()} - {"LICENSE", "NOTICE"}
        self.assertTrue(files and all(name.startswith("libbanyan.so.0") for name in files), files)

    def test_the_service_is_installed_alone_with_its_units(self):
        self.install("--component", "service")
        self.assertIn("--world", output_of(self.prefix / "bin/banyand", "--help"))
        units = self.prefix / "lib/systemd/system"
        self.assertEqual(sorted(path.name for path in units.iterdir()),
                         ["banyand-http.socket", "banyand-operators.socket", "banyand.service", "banyand.socket"])
        self.assertIn(f"\nExecStart={self.prefix}/bin/banyand ", (units / "banyand.service").read_text())
        self.assertIn("u banyan ", (self.prefix / "lib/sysusers.d/banyan.conf").read_text())
        self.assertTrue((self.prefix / "share/man/man8/banyand.8").exists())
        for script in ("prolog", "task_prolog", "epilog"):
            self.assertTrue(os.access(self.prefix / "share/doc/banyan/deploy/slurm" / script, os.X_OK), script)
        names = {path.name for path in self.prefix.rglob("*")}
        self.assertFalse({"banyan.1", "libbanyan.so.0"} & names, names)


class Configured(unittest.TestCase):
    """Without tests, and as a part of another project, nothing is wanted that only the rest is built with."""

    def configure(self, folder, *options, without=(), fails=False):
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in without]
        return output_of(CMAKE, "-GNinja", "-S", folder, f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}",
                         *options, *hidden, fails=fails)

    def targets_in(self, build):
        return output_of("ninja", "-C", build, "-t", "targets", "all")

    @unittest.skipUnless(platform.machine() == "x86_64", "the compilers here have no -m32")
    def test_processors_of_32_bits_are_refused_in_words(self):
        with tempfile.TemporaryDirectory() as build:
            said = self.configure(SOURCE, "-B", build, "-DCMAKE_CXX_FLAGS=-m32", "-DCMAKE_C_FLAGS=-m32",
                                  "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", fails=True)  # there is no such libc
            self.assertIn("Banyan wants a processor of 64 bits", said)

    def test_without_tests(self):
        with tempfile.TemporaryDirectory() as build:
            self.configure(SOURCE, "-B", build, "-DBANYAN_TESTS=OFF", "-DBANYAN_TORCH=OFF",
                           without=["GTest", "benchmark", "Python3"])
            targets = self.targets_in(build)
            self.assertIn("\nbanyan: ", targets)
            self.assertNotRegex(targets, "_test: |_bench: |gtest|banyan_testing")
            self.assertNotIn("-Werror", (pathlib.Path(build) / "build.ninja").read_text())

    def test_within_another_project(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES C)\n"
                f"add_subdirectory({SOURCE} banyan)\nadd_executable(allreduce {EXAMPLES}/allreduce.c)\n"
                "target_link_libraries(allreduce Banyan::banyan)\ninstall(TARGETS allreduce)\n")
            self.configure(folder, "-B", folder / "build", without=["GTest", "benchmark", "CLI11", "Python3"])
            targets = self.targets_in(folder / "build")
            self.assertIn("libbanyan.so.0", targets)
            self.assertNotRegex(targets, "_test: |_bench: |banyan_testing|banyan_app|banyan_torch")
            built_by_all = output_of("ninja", "-C", folder / "build", "-n", "-v")
            self.assertNotRegex(built_by_all, "predict/report|/lab/|/apps/|-Werror")
            installed = (folder / "build/cmake_install.cmake").read_text()
            self.assertNotIn("include/banyan", installed)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
