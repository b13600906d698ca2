"""Builds the wheels of banyan and banyan_torch with CMake: a build backend as PEP 517 describes it.

It needs Python, CMake, a compiler, the libraries that Banyan is built with, and pybind11, and downloads nothing itself.
The folder that pip is called for has a pyproject.toml, whose name says which package is built. What comes about on the
way is kept in build/wheel-..., so that a second wheel takes seconds. Settings of `pip install
--config-settings KEY=VALUE`:

    build-dir=FOLDER     another folder for that
    cmake-args=ARGUMENTS more arguments for cmake, between spaces
"""
import base64
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel",
           "prepare_metadata_for_build_wheel"]

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What the distribution of each name is made of: its component of `cmake --install`, its target, CMake's options.
PACKAGES = {
    "banyan": ("python", "banyan_python_package", ["-DBANYAN_PYTHON_PACKAGE=ON"]),
    "banyan-torch": ("torch", "banyan_torch_package", ["-DBANYAN_TORCH=ON"]),
}
# Where CMake says that something is missing: a pattern of its log, and what to install.
MISSING = [
    (r"nlohmann_json", "nlohmann-json (Debian: nlohmann-json3-dev)"),
    (r"pugixml", "pugixml (Debian: libpugixml-dev)"),
    (r"libxxhash", "xxHash (Debian: libxxhash-dev)"),
    (r"libzstd", "Zstandard (Debian: libzstd-dev)"),
    (r"package .clp.", "CLP (Debian: coinor-libclp-dev)"),
    (r"Could NOT find OpenSSL", "OpenSSL (Debian: libssl-dev)"),
    (r"Could NOT find Protobuf", "Protocol Buffers (Debian: libprotobuf-dev and protobuf-compiler)"),
    (r"Could NOT find ZLIB", "zlib (Debian: zlib1g-dev)"),
    (r"Could NOT find PkgConfig", "pkg-config (Debian: pkg-config)"),
    (r"Could NOT find Threads", "the C library's headers (Debian: libc6-dev)"),
]


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    project = Project()
    folder = pathlib.Path(metadata_directory, project.dist_info)
    folder.mkdir()
    for name, contents in project.metadata_files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(contents)
    return project.dist_info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project, settings = Project(), config_settings or {}
    require_tools(project.name)
    with tempfile.TemporaryDirectory() as stage:
        build(project, settings, pathlib.Path(stage))
        return write_wheel(project, pathlib.Path(stage, "packages"), pathlib.Path(wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    """Everything that git tracks, or that is there where git is not."""
    project = Project()
    if project.folder != ROOT:
        sys.exit(f"{project.name}: built from Banyan's tree only, which has its sources; there is no archive of them")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in sorted(ROOT.rglob("*")) if path.is_file()
                 and not path.relative_to(ROOT).parts[0].startswith("build")]
    top = f"{project.module}-{project.version}"
    with tarfile.open(pathlib.Path(sdist_directory, f"{top}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            if (ROOT / name).is_file():
                archive.add(ROOT / name, f"{top}/{name}", recursive=False)
        for name, contents in (("PKG-INFO", project.metadata()), ("VERSION", f"{version_as('file')}\n".encode())):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(contents)
            archive.addfile(entry, io.BytesIO(contents))
    return f"{top}.tar.gz"


def version_as(form):
    command = [sys.executable, str(ROOT / "packaging" / "version"), form]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


class Project:
    """What pyproject.toml of the current folder says, and what follows from it."""

    def __init__(self, version=None):
        self.folder = pathlib.Path.cwd().resolve()
        with open(self.folder / "pyproject.toml", "rb") as file:
            self.said = tomllib.load(file)["project"]
        self.name = self.said["name"]
        self.module = self.name.replace("-", "_")
        self.version = version or version_as("python")
        self.dist_info = f"{self.module}-{self.version}.dist-info"
        tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        abi = sysconfig.get_config_var("SOABI").split("-")[1]  # cpython-313t: threads without a global lock
        self.tag = f"{tag}-cp{abi}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def metadata(self):
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}",
                 f"Summary: {self.said['description']}", f"License: {self.said['license']['text']}"]
        if "keywords" in self.said:
            lines.append("Keywords: " + ",".join(self.said["keywords"]))
        lines += ["License-File: LICENSE", "License-File: NOTICE"]
        lines += [f"Classifier: {line}" for line in self.said["classifiers"]]
        lines += [f"Requires-Python: {self.said['requires-python']}"]
        lines += [f"Requires-Dist: {line}" for line in self.said.get("dependencies", [])]
        text = ""
        if "readme" in self.said:
            lines.append("Description-Content-Type: text/markdown")
            text = "\n" + (ROOT / self.said["readme"]).read_text(encoding="utf-8")
        return ("\n".join(lines) + "\n" + text).encode()

    def metadata_files(self):
        """Those that are known before anything is built."""
        licences = {f"licenses/{name}": (ROOT / name).read_bytes() for name in ("LICENSE", "NOTICE")}
        return {"METADATA": self.metadata(), **licences,
                "WHEEL": f"Wheel-Version: 1.0\nGenerator: banyan\nRoot-Is-Purelib: false\nTag: {self.tag}\n".encode()}


def environment(name):
    """Ours; for banyan-torch without what pip puts there to hide the packages of the system, of which PyTorch is one."""
    result = dict(os.environ, CLICOLOR="0")
    result.pop("CLICOLOR_FORCE", None)
    if name == "banyan-torch" and "PYTHONPATH" in result:
        paths = [path for path in result["PYTHONPATH"].split(os.pathsep) if "pip-build-env" not in path]
        result["PYTHONPATH"] = os.pathsep.join(paths)
        if not paths:
            del result["PYTHONPATH"]
    return result


def require_tools(name):
    if shutil.which("cmake") is None:
        sys.exit(f"{name}: cmake is missing; install it (Debian: cmake)")
    compilers = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    if not any(shutil.which(compiler) for compiler in compilers):
        sys.exit(f"{name}: a C++ compiler is missing ({', '.join(compilers)}); install one (Debian: g++)")
    if shutil.which("ninja") is None and shutil.which("make") is None:
        sys.exit(f"{name}: ninja and make are missing; install one (Debian: ninja-build)")


def build(project, settings, stage):
    """Leaves the component of the package in stage/packages."""
    component, target, options = PACKAGES[project.name]
    folder = pathlib.Path(settings.get("build-dir") or ROOT / "build" / f"wheel-{project.tag}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a tree that may only be read
        folder = stage / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    others = [f"-D{option}=OFF" for option in ("BANYAN_PYTHON_PACKAGE", "BANYAN_TORCH") if
              not any(option in each for each in options)]
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), *generator, "-DCMAKE_BUILD_TYPE=Release",
                 "-DBANYAN_UNITY=ON", "-DBANYAN_APPS=OFF", "-DBANYAN_TESTS=OFF", "-DBANYAN_INSTALL=ON",
                 "-DBANYAN_WERROR=OFF", f"-DBANYAN_VERSION_TEXT={project.version}",
                 f"-DBANYAN_PYTHON={sys.executable}", "-DBANYAN_PYTHON_DIR=packages", *options, *others,
                 *shlex.split(settings.get("cmake-args", ""))]
    told = subprocess.run(configure, env=environment(project.name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if told.returncode != 0:
        sys.exit(f"{project.name}: {why_not(told.stdout)}")
    jobs = [] if generator else [f"-j{len(os.sched_getaffinity(0))}"]
    run([*"cmake --build".split(), str(folder), "--target", target, *jobs], project.name, "does not compile")
    run([*"cmake --install".split(), str(folder), "--component", component, "--prefix", str(stage), "--strip"],
        project.name, "cannot be installed")


def why_not(log):
    """One line for what CMake has said in many."""
    flat = re.sub(r"\s+", " ", log)
    error = flat.find("CMake Error")
    said = flat[error:]
    for pattern, missing in MISSING:
        if re.search(pattern, said):
            return f"{missing} is missing; install it"
    # Our own errors are one line with the mend.
    ours = re.search(r"CMake Error at \S+ \(message\): (.*?)( Call Stack| -- Configuring|$)", said)
    return ours.group(1) if ours else f"CMake fails: {said[:400]}"


def run(command, name, failure):
    """Output goes to pip, which shows it with -v, or when the command fails."""
    if subprocess.run(command, env=environment(name), check=False).returncode != 0:
        sys.exit(f"{name}: {failure}; what the tools said stands above")


def write_wheel(project, packages, folder):
    """One archive of all files, then RECORD, which lists them."""
    # CMake may have made a dist-info of its own, for other ways of installing: what it says of entry points holds.
    entry_points = [path.read_bytes() for path in packages.glob("*.dist-info/entry_points.txt")]
    files = {str(path.relative_to(packages)): path.read_bytes() for path in sorted(packages.rglob("*"))
             if path.is_file() and not path.relative_to(packages).parts[0].endswith(".dist-info")}
    if not any(name.startswith(f"{project.module}/") for name in files):
        sys.exit(f"{project.name}: CMake has installed no package {project.module}")
    about = project.metadata_files()
    if entry_points:
        about["entry_points.txt"] = entry_points[0]
    files.update({f"{project.dist_info}/{name}": contents for name, contents in about.items()})
    record = "".join(f"{name},sha256={digest(contents)},{len(contents)}\n" for name, contents in files.items())
    files[f"{project.dist_info}/RECORD"] = f"{record}{project.dist_info}/RECORD,,\n".encode()
    name = f"{project.module}-{project.version}-{project.tag}.whl"
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, contents in files.items():
            entry = zipfile.ZipInfo(path)  # with the same time always: the same tree makes the same wheel
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents)
    return name


def digest(contents):
    return base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()


if __name__ == "__main__" and sys.argv[1:2] == ["metadata"]:  # FOLDER.dist-info VERSION, for what is no wheel
    made = pathlib.Path(sys.argv[2])
    for name, contents in Project(version=sys.argv[3]).metadata_files().items():
        if name != "WHEEL":
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(contents)
