"""The tree and its pages: their prose, their blocks of commands, and what comments say of these."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md", "docs/*.md", "docs/formats/*.md",
         "examples/**/*.md", "bench/*.md", "banyan/*/README.md", "tools/*.md"]
SHELL = ("sh", "console", "bash", "shell")
COMMAND = re.compile(
    r"(\w+=\S* )*(banyan|make|cmake|ctest|ninja|mpirun|mpiexec|srun|sbatch|torchrun|(/usr/bin/)?python3|pip|apt|"
    r"apt-get|dpkg|sudo|export|cc|c\+\+|gcc|g\+\+|git|cd|cp|mkdir|openssl|tar|docker|podman|kubectl|nvidia-smi|"
    r"scontrol|ibnetdiscover|lstopo|man|source|curl|(build|tools|bench)/[\w./-]+|\./\w+)( |$)")


class Command:
    def __init__(self, line, text):
        self.line, self.text, self.output = line, text, None
        self.exit, self.skip, self.slow, self.setup = 0, None, False, []


class Block:
    """A code block that holds commands."""

    def __init__(self, page, line, commands):
        self.page, self.line, self.commands = page, line, commands
        self.seconds = 180


def is_complete(text):
    """Whether bash has all of a command: no open quote, no open loop, no document without an end."""
    told = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    return not re.search("unexpected EOF|unexpected end of file|here-document", told.stderr) and not text.endswith("\\")


def commands_of(lines, first):
    """The commands of a block's lines, the first of which has the number `first`."""
    with_prompt = any(line.startswith("$ ") for line in lines)
    commands, i = [], 0
    while i < len(lines):
        line = lines[i]
        if with_prompt and not line.startswith("$ "):
            if commands:
                commands[-1].output = (commands[-1].output or []) + [line]
            i += 1
            continue
        start, text = i, line[2:] if with_prompt else line
        i += 1
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        while not is_complete(text) and i < len(lines):
            text += "\n" + (lines[i][2:] if with_prompt and lines[i].startswith("> ") else lines[i])
            i += 1
        commands.append(Command(first + start, text))
    for command in commands:
        while command.output and not command.output[-1].strip():
            command.output.pop()
    return commands


def holds_commands(language, lines):
    if language in SHELL:
        return True
    words = [line.removeprefix("$ ") for line in lines if line.strip() and not line.startswith("#")]
    return language == "" and bool(words) and (lines[0].startswith("$ ") or bool(COMMAND.match(words[0])))


class Page:
    """A Markdown file: its prose with code blocks blanked, its blocks of commands, its directives."""

    def __init__(self, name):
        self.name = name
        self.lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        self.prose, self.blocks, self.bad = list(self.lines), [], []
        directives, i, blank_before = [], 0, True
        while i < len(self.lines):
            line = self.lines[i]
            fence = re.match(r"( *)(```+)\s*(\S*)", line)
            comment = re.match(r"<!-- readme-check: (.*) -->$", line)
            if comment:
                directives.append((i + 1, comment.group(1)))
                self.prose[i] = ""
                i += 1
                continue
            if fence:
                end = i + 1
                while end < len(self.lines) and self.lines[end].strip() != fence.group(2):
                    end += 1
                body = [text[len(fence.group(1)):] for text in self.lines[i + 1:end]]
                self.add(fence.group(3), body, i + 2, directives)
                end += 1
            elif blank_before and line.startswith("    ") and line.strip():
                end = i
                while end < len(self.lines) and (self.lines[end].startswith("    ") or not self.lines[end].strip()):
                    end += 1
                self.add("", [text[4:] for text in self.lines[i:end]], i + 1, directives)
            else:
                if line.strip():
                    self.bad += [f"{name}:{at}: no block follows this comment" for at, _ in directives]
                    directives = []
                blank_before = not line.strip()
                i += 1
                continue
            self.prose[i:end] = [""] * (end - i)
            directives, i, blank_before = [], end, True

    def add(self, language, lines, first, directives):
        if not holds_commands(language, lines):
            self.bad += [f"{self.name}:{at}: the block that follows this comment holds no commands"
                         for at, _ in directives]
            return
        block = Block(self.name, first, commands_of(lines, first))
        for at, directive in directives:
            one = re.match(r"for '(.*?)': (.*)", directive)
            chosen = block.commands
            if one:
                texts = one.group(1).split("|")
                chosen = [command for command in block.commands if any(text in command.text for text in texts)]
                self.bad += [f"{self.name}:{at}: no command of the block contains '{text}'" for text in texts
                             if not any(text in command.text for command in block.commands)]
            self.apply(block, chosen, one.group(2) if one else directive)
        self.blocks.append(block)

    @staticmethod
    def apply(block, commands, directive):
        word, _, rest = directive.partition(" ")
        if word == "seconds" and rest.isdigit():
            block.seconds = int(rest)
        for command in commands:
            if word == "setup":
                command.setup.append(rest)
            elif word == "exit" and rest.isdigit():
                command.exit = int(rest)
            elif directive == "slow":
                command.slow = True
            elif word != "seconds":
                command.skip = directive

    def spans(self):
        """Inline code: its line and text."""
        for number, line in enumerate(self.prose, 1):
            for match in re.finditer(r"`([^`]+)`", line):
                yield number, match.group(1)
