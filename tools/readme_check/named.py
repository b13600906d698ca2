"""What pages name: links, files, options, variables and the names of interfaces."""
import os
import pathlib
import re
import shlex
import subprocess

from . import tree

# Programs whose options are not ours.
OTHERS = re.compile(r"(cmake|ctest|mpirun|mpiexec|srun|torchrun|docker|podman|pip|apt|npm|ip|tc|ssh|openssl|unshare|"
                    r"gdb|py-spy|ethtool|git|lstopo|nvidia-smi|rocm-smi|"
                    r"cc|c\+\+|dpkg|debootstrap|pkg-config|nm|perf|tcpdump|"
                    r"bench/\w+)\b")


def anchors(name):
    """The names that GitHub gives to the headings of a page."""
    found = set()
    for line in tree.Page(name).prose:
        heading = re.match(r"#+ (.*)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading.group(1)).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def check_links(pages):
    for page in pages:
        for number, line in enumerate(page.prose, 1):
            for target in re.findall(r"\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"", line):
                target = "".join(target)
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = (tree.ROOT / page.name).parent / path if path else tree.ROOT / page.name
                if not file.exists():
                    yield f"{page.name}:{number}: the link {target} leads nowhere"
                elif anchor and file.suffix == ".md" and anchor not in anchors(os.path.relpath(file, tree.ROOT)):
                    yield f"{page.name}:{number}: {path or page.name} has no heading for #{anchor}"


def check_files(pages):
    """Paths that begin with a folder of the tree, in inline code and in commands."""
    phony = re.search(r"(?m)^\.PHONY: (.*)$", (tree.ROOT / "Makefile").read_text())
    targets = set(phony.group(1).split()) if phony else set()
    folders = [path.name for path in tree.ROOT.iterdir()
               if path.is_dir() and path.name[0] != "." and path.name != "build"]
    path_of_tree = re.compile(r"(?<![\w./<-])((?:" + "|".join(map(re.escape, folders)) + r")/[\w./*-]*\w)")
    for page in pages:
        texts = list(page.spans())
        texts += [(command.line, command.text) for block in page.blocks for command in block.commands]
        for number, text in texts:
            for target in re.findall(r"(?:^|; *)make ([a-z][a-z0-9-]*)", text):
                if target not in targets:
                    yield f"{page.name}:{number}: the Makefile has no target {target}"
            written = set(re.findall(r"(?:-o|>|--html|--trace|--output|--csv|--plot) +(\S+)", text))
            for path in path_of_tree.findall(text):
                stem = pathlib.PurePosixPath(path)
                near = [tree.ROOT / stem, *tree.ROOT.glob(f"{stem}.*"), *(tree.ROOT / "include").glob(str(stem)),
                        *tree.ROOT.glob(str(stem)), *(tree.ROOT / "banyan").glob(f"{stem}*"),
                        (tree.ROOT / page.name).parent / stem]
                if re.fullmatch(r"\w+/\d", path):  # the name of a format
                    continue
                if path not in written and not any(file.exists() for file in near):
                    yield f"{page.name}:{number}: {path} is not in the tree"


class Helps:
    """What `banyan COMMAND --help` prints, asked for once."""

    def __init__(self, banyan):
        self.banyan, self.texts = banyan, {}

    def of(self, words):
        if words not in self.texts:
            told = subprocess.run([self.banyan, *words, "--help"], capture_output=True, text=True, timeout=30)
            self.texts[words] = told.stdout if told.returncode == 0 else None
        return self.texts[words]

    def commands(self, words=()):
        """All commands below one, with their own words."""
        yield words
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", self.of(words) or "", re.MULTILINE)
        for name in re.findall(r"^  ([a-z-]+) ", listed.group(1), re.MULTILINE) if listed else []:
            if name not in ("help", "version"):
                yield from self.commands((*words, name))

    def has(self, words, option):
        return re.search(r"(?<![\w-])" + re.escape(option) + r"(?![\w-])", self.of(words) or "") is not None


def uses_of_banyan(text):
    """The words of each banyan command in a line of shell, up to "--"."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return
    for i, word in enumerate(words):
        if word in ("banyan", "build/banyan"):
            end = i + 1
            while end < len(words) and words[end] != "--" and not re.fullmatch(r"[|;&<>()]+", words[end]):
                end += 1
            yield words[i + 1:end]


def check_options(pages, helps):
    commands = list(helps.commands())
    tools = [*(tree.ROOT / "tools").iterdir(), *(tree.ROOT / "bench").iterdir(), *(tree.ROOT / "bench/peers").iterdir(),
             *(tree.ROOT / "examples").rglob("*.py"), *(tree.ROOT / "bindings").rglob("*.py"),
             *(tree.ROOT / "banyan").rglob("*.py"), *(tree.ROOT / "apps/banyand").glob("*.cc")]
    of_tools = set(re.findall(r"--[a-z][a-z-]+", "\n".join(
        file.read_text(errors="replace") for file in tools if file.is_file())))
    for page in pages:
        for block in page.blocks:
            for command in block.commands:
                for words in uses_of_banyan(command.text):
                    path = ()
                    while len(path) < len(words) and (*path, words[len(path)]) in commands:
                        path = (*path, words[len(path)])
                    for option in [word.split("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]:
                        if path and option != "--help" and not helps.has(path, option):
                            yield f"{page.name}:{command.line}: 'banyan {' '.join(path)}' has no option {option}"
        for number, span in page.spans():
            span = " ".join(part for part in re.split(r" *(?:&&|[|;]) *", span) if not OTHERS.match(part))
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![\w.-])", span):
                if option not in ("--help", "--version") and option not in of_tools:
                    if not any(helps.has(words, option) for words in commands):
                        yield f"{page.name}:{number}: no command has the option {option}"


def sources(*endings):
    for folder in ("banyan", "bindings", "lab", "apps", "include"):
        for file in (tree.ROOT / folder).rglob("*"):
            if file.is_file() and file.name.endswith(endings) and "test" not in str(file.relative_to(tree.ROOT)):
                yield file


def declared_names():
    """Every word of the public headers, of banyan_torch and of what CMake and the tree call by name."""
    text = "\n".join(file.read_text(errors="replace") for file in (
        *(tree.ROOT / "include").rglob("*.h"), *(tree.ROOT / "bindings").rglob("*.py*"),
        *(tree.ROOT / "bindings").rglob("*.h"), *(tree.ROOT / "bindings").rglob("*.cc"), *cmake_files())
                     if file.is_file())
    printed = set()  # such as metrics
    for file in sources(".cc"):
        printed |= set(re.findall(r"\"(banyan_[a-z_]+)\"", file.read_text(errors="replace")))
    return set(re.findall(r"\w+", text)) | printed | {file.name for file in (tree.ROOT / "bindings").iterdir()}


def cmake_files():
    """What CMake and make read, but not what they write."""
    for folder in (path for path in tree.ROOT.iterdir() if path.is_dir() and not re.match(r"build|\.", path.name)):
        yield from (file for file in folder.rglob("*") if file.name == "CMakeLists.txt" or ".cmake" in file.name)
    for name in ("CMakeLists.txt", "CMakePresets.json", "Makefile"):
        if (tree.ROOT / name).exists():
            yield tree.ROOT / name


def cmake_options():
    return set(re.findall(r"BANYAN_[A-Z_]+", "\n".join(file.read_text() for file in cmake_files())))


def check_variables(pages):
    read = set()
    for file in sources(".cc", ".h", ".c", ".py"):
        read |= set(re.findall(r"[\"'](BANYAN_[A-Z_]*[A-Z])[\"'=]", file.read_text(errors="replace")))
    of_cmake = set(re.findall(r"(?:option|set)\((BANYAN_[A-Z_]+) [^)]*(?:CACHE|\")", "\n".join(
        file.read_text() for file in cmake_files())))
    read = {name for name in read if not name.startswith("BANYAN_TEST")} - of_cmake
    documented, where = set(), {}
    for page in pages:
        for number, line in enumerate(page.lines, 1):
            for name in re.findall(r"(?<![\w$])BANYAN_[A-Z0-9_]*[A-Z0-9](?!\w)", line):
                documented.add(name)
                where.setdefault(name, f"{page.name}:{number}")
    in_headers = set(re.findall(r"\bBANYAN_[A-Z0-9_]+\b", "\n".join(
        re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL) for file in (tree.ROOT / "include").rglob("*.h"))))
    for name in sorted(read - documented):
        yield f"{name}: the sources read this variable, and no page tells of it"
    of_tools = set(re.findall(r"BANYAN_[A-Z_]+", "\n".join(
        file.read_text(errors="replace") for folder in ("tools", "bench", "packaging")
        for file in (tree.ROOT / folder).rglob("*")
        if file.is_file() and not {"readme-check", "readme_check"} & {file.name, file.parent.name})))
    for name in sorted(documented - read - in_headers - cmake_options() - of_tools):
        if name != "BANYAN_TRANSPRT":  # the example of a mistyped one
            yield f"{where[name]}: {name} is no variable that the sources read, and no name of the headers"


def check_names(pages):
    known = declared_names()
    for page in pages:
        for number, span in page.spans():
            if "/" in span or span.endswith((".cc", ".h", ".so", ".json", ".xml")):
                continue
            used = re.findall(r"(?<![\w.-])(p?banyan_[a-z0-9_]*[a-z0-9])(?![\w*-])", span)
            used = [name for name in used if not name.endswith("banyan_x")]  # any of them
            used += [part for name in re.findall(r"\bbanyan::((?:\w+::)*\w+)", span) for part in name.split("::")]
            used += re.findall(r"\bbanyan_torch\.(\w+)", span)
            for name in used:
                if name.removeprefix("p") not in known and name not in known:
                    yield f"{page.name}:{number}: {name} is declared nowhere"
