"""Writes what Python's package tools know an installed package by: its dist-info folder.

    dist_info.py new FOLDER NAME VERSION SUMMARY [--entry GROUP NAME OBJECT]...   makes FOLDER/NAME-VERSION.dist-info
    dist_info.py record FOLDER NAME [PATH]...       adds RECORD to what lies in FOLDER: the files at these paths and
                                                    below, and its own; with it `pip uninstall` removes them
    dist_info.py remove FOLDER NAME                 removes the dist-info of every version of NAME

Wheels need the first only (their builder writes RECORD), Debian packages too.
"""

import argparse
import base64
import hashlib
import pathlib
import shutil

kInstaller = "banyan"


def folders(folder, name):
    """The dist-info folders of `name`, of any version."""
    return sorted(pathlib.Path(folder).glob(f"{name}-*.dist-info"))


def new(folder, name, version, summary, entries):
    """Makes the dist-info; that of another version goes."""
    remove(folder, name)
    made = pathlib.Path(folder) / f"{name}-{version}.dist-info"
    made.mkdir(parents=True)
    headers = {"Metadata-Version": "2.1", "Name": name.replace("_", "-"), "Version": version, "Summary": summary,
               "Requires-Python": ">=3.9", "License": "Apache-2.0"}
    (made / "METADATA").write_text("".join(f"{key}: {value}\n" for key, value in headers.items()), encoding="utf-8")
    (made / "licenses").mkdir()
    for licence in ("LICENSE", "NOTICE"):
        shutil.copy(pathlib.Path(__file__).resolve().parents[2] / licence, made / "licenses")
    groups = {}
    for group, entry, target in entries:
        groups.setdefault(group, []).append(f"{entry} = {target}\n")
    texts = [f"[{group}]\n{''.join(lines)}" for group, lines in groups.items()]
    (made / "entry_points.txt").write_text("\n".join(texts), encoding="utf-8")


def record(folder, name, paths):
    """Lists the files with their hashes, relative to `folder`."""
    folder = pathlib.Path(folder)
    (info,) = folders(folder, name)
    (info / "INSTALLER").write_text(f"{kInstaller}\n", encoding="utf-8")
    rows = []
    for path in [*paths, info.name]:
        found = folder / path
        files = [found] if found.is_file() else sorted(file for file in found.rglob("*") if file.is_file())
        for file in files:
            if "__pycache__" in file.parts or file.name == "RECORD":
                continue
            data = file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{file.relative_to(folder)},sha256={digest},{len(data)}\n")
    (info / "RECORD").write_text("".join(rows) + f"{info.name}/RECORD,,\n", encoding="utf-8")


def remove(folder, name):
    for info in folders(folder, name):
        shutil.rmtree(info)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("new", "record", "remove"):
        sub = commands.add_parser(command)
        sub.add_argument("folder")
        sub.add_argument("name")
        if command == "new":
            sub.add_argument("version")
            sub.add_argument("summary")
            sub.add_argument("--entry", nargs=3, action="append", default=[], metavar=("GROUP", "NAME", "OBJECT"))
        if command == "record":
            sub.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    if arguments.command == "new":
        new(arguments.folder, arguments.name, arguments.version, arguments.summary, arguments.entry)
    elif arguments.command == "record":
        record(arguments.folder, arguments.name, arguments.paths)
    else:
        remove(arguments.folder, arguments.name)


if __name__ == "__main__":
    main()
