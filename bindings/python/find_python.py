"""Prints what CMake must know of this interpreter, between semicolons: its version, how modules are called, and the
directories with the headers of pybind11 and Python."""
import os
import sys
import sysconfig

try:
    import pybind11
except ImportError:
    sys.exit("pybind11 is missing (Debian: python3-pybind11 and pybind11-dev; in a virtual environment of pip "
             "--no-build-isolation also --system-site-packages)")
headers = [pybind11.get_include(), sysconfig.get_path("include")]
for header, folder, package in (("pybind11/pybind11.h", headers[0], "pybind11-dev"),
                                ("Python.h", headers[1], "python3-dev")):
    if not os.path.exists(os.path.join(folder, header)):
        sys.exit(f"the header {header} is missing in {folder} (Debian: {package})")
version = ".".join(map(str, sys.version_info[:3]))
print(";".join([version, sysconfig.get_config_var("EXT_SUFFIX"), *headers]))
