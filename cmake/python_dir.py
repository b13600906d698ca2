"""Prints where this interpreter looks for packages in the installation prefix given, relative to that prefix."""
import os
import sys
import sysconfig

prefix = os.path.normpath(sys.argv[1])
if "deb_system" in sysconfig.get_scheme_names() and sys.prefix == "/usr":
    # Debian's own interpreter: what packages bring, and what is installed beside them in /usr/local.
    version = "" if prefix == "/usr" else ".".join(map(str, sys.version_info[:2]))
    print(f"lib/python{version or 3}/dist-packages")
else:
    print(os.path.relpath(sysconfig.get_path("platlib"), sys.prefix))
