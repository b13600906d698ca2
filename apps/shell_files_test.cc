// Manual pages and completions: what they hold is compared with --help, and they are read by the programs for which
// they are made: man, mandoc, groff; bash, zsh, fish. Where one of these is not installed, its test is skipped.
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <regex>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Words = std::vector<std::string>;

// Runs a command line of sh; both of its streams come back.
Outcome run_shell(const std::string& line) {
  Outcome outcome;
  FILE* const pipe = ::popen(("{ " + line + "\n} 2>&1 < /dev/null").c_str(), "r");
  char buffer[1 << 12];
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.out.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

bool is_installed(const std::string& program) { return run_shell("command -v " + program).exit_code == 0; }

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What --help says: the commands, as "lab up", and the options of each, "-o" and "--output".
struct Helped {
  std::map<std::string, std::set<std::string>> options;
};

void read_help(const Words& command, Helped& helped) {
  Words arguments = command;
  arguments.push_back("--help");
  std::string name;
  for (const std::string& word : command) name += (name.empty() ? "" : " ") + word;
  std::set<std::string>& options = helped.options[name];
  const std::regex option(R"(^ +(-.*?)(  .*|$))"), names(R"((^|, )(--?[A-Za-z][A-Za-z0-9-]*))"),
      verb("^  ([a-z]+) +[A-Z].*");
  bool in_commands = false;
  std::smatch found;
  for (const std::string& line : lines_of(run_banyan(arguments).out)) {
    if (!line.starts_with(' ')) in_commands = line == "Commands:";
    if (in_commands && std::regex_match(line, found, verb)) {
      Words below = command;
      below.push_back(found[1]);
      read_help(below, helped);
    }
    if (line.starts_with("  ") && std::regex_match(line, found, option)) {
      const std::string left = found[1];
      for (std::sregex_iterator each(left.begin(), left.end(), names), end; each != end; ++each) {
        options.insert((*each)[2]);
      }
    }
  }
}

const Helped& helped() {
  static const Helped all = [] {
    Helped read;
    read_help({}, read);
    return read;
  }();
  return all;
}

TEST(HelpOfAllCommands, IsReadByTheTestsBelow) {
  EXPECT_GE(helped().options.size(), 22u);
  EXPECT_THAT(helped().options.at("plan"), AllOf(Contains("-o"), Contains("--output"), Contains("--max-height")));
  EXPECT_THAT(helped().options.at("predict train"), Contains("--model"));
  EXPECT_THAT(helped().options.at("lab up"), Contains("--scale"));
  EXPECT_EQ(helped().options.count("manual"), 0u) << "hidden";
}

class ManualPages : public ::testing::Test {
 protected:
  ManualPages() {
    const Outcome outcome = run_banyan({"manual", folder_.path("man1"), "--date", "2026-01-31"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const auto& [command, options] : helped().options) {
      std::string file = command.empty() ? "banyan.1" : "banyan-" + command + ".1";
      std::replace(file.begin(), file.end(), ' ', '-');
      pages_[command] = folder_.path("man1/" + file);
    }
  }
  // By each page; nothing may be said.
  void expect_silence(const std::string& program, const std::string& arguments) {
    if (!is_installed(program)) GTEST_SKIP() << program << " is not installed";
    for (const auto& [command, file] : pages_) {
      const Outcome outcome = run_shell(program + " " + arguments + " '" + file + "'");
      EXPECT_THAT(outcome.out, IsEmpty());
      EXPECT_EQ(outcome.exit_code, 0);
    }
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> pages_;
};

TEST_F(ManualPages, HaveEveryCommandAndOptionOfTheHelp) {
  for (const auto& [command, options] : helped().options) {
    const std::string page = std::regex_replace(read_file(pages_[command]), std::regex(R"(\\(-)|\\f[BIR])"), "$1");
    for (const std::string& option : options) {
      EXPECT_THAT(page, ::testing::ContainsRegex("\n" + option + "[ ,\n]|, " + option + "[ \n]")) << command;
    }
    for (const char* const section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"}) {
      EXPECT_THAT(page, HasSubstr("\n.SH " + std::string(section) + "\n")) << command;
    }
    EXPECT_THAT(page, HasSubstr("\"2026-01-31\"")) << command;
  }
  const std::string run = read_file(pages_["run"]);
  EXPECT_THAT(run, AllOf(HasSubstr(".SH ENVIRONMENT"), HasSubstr("BANYAN_TIMEOUT"), HasSubstr(".SH EXAMPLES")));
  EXPECT_THAT(read_file(pages_["doctor"]), HasSubstr(".SH FILES\n"));
}

TEST_F(ManualPages, SayNothingThatIsNotAscii) {
  for (const auto& [command, file] : pages_) {
    const std::string page = read_file(file);
    EXPECT_TRUE(std::all_of(page.begin(), page.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
        << file;
  }
}

TEST_F(ManualPages, AreReadByGroffWithoutAWarning) { expect_silence("groff", "-ww -man -Tutf8 -z"); }
TEST_F(ManualPages, AreReadByMandocWithoutAWarning) { expect_silence("mandoc", "-Tlint -Wwarning"); }
TEST_F(ManualPages, AreReadByManWithoutAWarning) { expect_silence("man", "--warnings -l -Z -Tutf8 > /dev/null"); }

TEST_F(ManualPages, ShowExamplesThatCanBeCopied) {
  if (!is_installed("groff")) GTEST_SKIP() << "groff is not installed";
  const Outcome page = run_shell("groff -man -Tascii -P-cbou '" + pages_["plan"] + "'");
  EXPECT_THAT(page.out, HasSubstr("banyan plan allreduce torus:4x4@25GB/s --compare --sizes 1MiB,64MiB,1GiB"));
  EXPECT_THAT(page.out, HasSubstr("-o, --output FILE"));
}

// What the program answers, without descriptions.
Words candidates(Words words) {
  words.insert(words.begin(), "__complete");
  Words offered = lines_of(run_banyan(words).out);
  for (std::string& each : offered) each = each.substr(0, each.find('\t'));
  return offered;
}

TEST(Completion, OffersTheCommandsOfTheHelp) {
  Words expected;
  for (const auto& [command, options] : helped().options) {
    if (!command.empty() && command.find(' ') == std::string::npos) expected.push_back(command);
  }
  EXPECT_THAT(candidates({""}), ::testing::UnorderedElementsAreArray(expected)) << "and no hidden one";
  EXPECT_THAT(candidates({"lab", ""}), AllOf(Contains("up"), Contains("down"), Not(Contains("plan"))));
  EXPECT_THAT(candidates({"ver"}), ElementsAre("verify", "version"));
  EXPECT_EQ(run_banyan({"__complete", "vers"}).out, "version\tPrint the version.\n");
}

TEST(Completion, OffersEveryOptionOfTheHelp) {
  for (const auto& [command, options] : helped().options) {
    std::istringstream stream(command + " -");
    const Words words(std::istream_iterator<std::string>(stream), {});
    EXPECT_THAT(candidates(words), ::testing::IsSupersetOf(options)) << command;
  }
}

TEST(Completion, OffersTheValuesOfWordsAndOptions) {
  const std::pair<Words, Words> lines[] = {
      {{"plan", ""}, {"allgather", "allreduce", "reduce-scatter"}},
      {{"plan", "--bytes", "1MiB", "--no-lower", "allreduce", "tor"}, {"torus:", ":files"}},
      {{"fabric", "leaf"}, {"leaf-spine:"}},
      {{"show", "ring:4", "--format", ""}, {"svg", "dot"}},
      {{"show", "ring:4", "--format=s"}, {"--format=svg"}},
      {{"show", "ring:4", "--output=a"}, {":files"}},
      {{"export", "plan.json", "--format", "m"}, {"msccl", "mscclpp"}},
      {{"run", "allreduce", "--type", "float"}, {"float16", "float32", "float64"}},
      {{"run", "--transport", ""}, {"shm", "tcp"}},
      {{"run", "--", "l"}, {":program"}},
      {{"predict", "tr"}, {"train"}},
      {{"predict", "allg"}, {"allgather"}},
      {{"predict", "allgather", "rin"}, {"ring:"}},
      {{"predict", "train", "--model", "gpt3-1"}, {"gpt3-13b", "gpt3-175b"}},
      {{"predict", "train", "--gpu", "h"}, {"h100", "h200"}},
      {{"predict", "train", "--algorithm", "for"}, {"forest"}},
      {{"predict", "job", "--on-failure", ""}, {"stop", "move", "fail"}},
      {{"bench", "all"}, {"allreduce", "allgather", "all-to-all", "all"}},
      {{"bench", "allreduce", "--op", "sum,m"}, {"sum,min", "sum,max", ":open"}},
      {{"bench", "--axis", ""}, {"busbw", "time"}},
      {{"compress", "--type", ""}, {"float16", "bfloat16", "float32", "float64"}},
      {{"completion", ""}, {"bash", "zsh", "fish"}},
      {{"help", "pre"}, {"predict"}},
  };
  for (const auto& [words, values] : lines) {
    EXPECT_THAT(candidates(words), ::testing::IsSupersetOf(values)) << ::testing::PrintToString(words);
  }
}

TEST(Completion, OffersNothingThatCannotStandThere) {
  EXPECT_THAT(candidates({"plan", "--bytes", ""}), IsEmpty()) << "a size is not known";
  EXPECT_THAT(candidates({"plan", "allreduce", ""}), Not(Contains("allgather"))) << "one collective is enough";
  EXPECT_THAT(candidates({"bench", "--op", "sum,s"}), Not(Contains("sum,sum"))) << "the list has it";
  EXPECT_THAT(candidates({"plan", "--json", "--j"}), IsEmpty()) << "it was given";
  EXPECT_THAT(candidates({"show", "--fail", "a-b", "--fa"}), Contains("--fail")) << "it may be given again";
}

// The script of one shell: what it offers at the end of a line. The shell is asked for all lines at once, since zsh
// takes half a second to start.
class Completer {
 public:
  explicit Completer(const std::string& shell) : shell_(shell) {
    file_ = folder_.path("_banyan");
    std::string scripts;
    for (const char* const program : {"banyan", "banyand"}) {
      scripts += run_banyan({"completion", shell, program}).out;
      const std::string stand_in = folder_.write(program, "#!/bin/sh\nexec " BANYAN_BINARY " \"$@\"\n");
      std::filesystem::permissions(stand_in, std::filesystem::perms::owner_all);
    }
    folder_.write("_banyan", scripts);
    folder_.write("a file.json", "{}");
    folder_.write("plan.json", "{}");
    folder_.write("drive", shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  }

  // For each line, in order and once each.
  std::vector<Words> offers(const Words& lines) const {
    std::string command =
        "cd '" + folder_.path("") + "' && PATH=.:$PATH timeout 100 " + shell_ + flags() + " ./drive '" + file_ + "'";
    for (const std::string& line : lines) command += " '" + std::regex_replace(line, std::regex("'"), "'\\''") + "'";
    std::vector<Words> all;
    std::set<std::string> offered;
    for (const std::string& word : lines_of(run_shell(command + " | tr -d '\\r'").out)) {
      if (word != kEnd) {
        offered.insert(word);
        continue;
      }
      all.emplace_back(offered.begin(), offered.end());
      offered.clear();
    }
    EXPECT_THAT(offered, IsEmpty()) << shell_ << " ended early";
    EXPECT_EQ(all.size(), lines.size()) << shell_ << " ended early";
    all.resize(lines.size());
    return all;
  }

 private:
  const char* flags() const { return shell_ == "zsh" ? " -f" : shell_ == "fish" ? " --no-config" : " --norc"; }

  // Every driver prints it behind what is offered for a line.
  static constexpr std::string_view kEnd = "end of offers";

  // As readline calls it, for the breaks of words that are its default.
  static constexpr const char* kBash = R"(
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
source "$1"
for line in "${@:2}"; do
  COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
  rest=$line COMP_WORDS=()
  while [[ $rest ]]; do
    if [[ $rest =~ ^[[:blank:]]+ ]]; then
      rest=${rest:${#BASH_REMATCH}}
      [[ $rest ]] || COMP_WORDS+=('')
    elif [[ $rest =~ ^[:=]+ || $rest =~ ^[^[:blank:]:=]+ ]]; then
      COMP_WORDS+=("$BASH_REMATCH")
      rest=${rest:${#BASH_REMATCH}}
    fi
  done
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _banyan
  for word in "${COMPREPLY[@]}"; do printf '%s\n' "$word"; done
  echo end of offers
done
)";
  // In a shell of its own on a terminal, where every match that would be added goes to a file. ^U clears the line for
  // the next one.
  static constexpr const char* kZsh = R"(
zmodload zsh/zpty
zpty shell zsh -f -i
cat > inside <<'END'
PROMPT= PS2=
autoload -Uz compinit; compinit -u -D
bindkey '^I' complete-word
bindkey '^U' kill-whole-line
setopt no_beep
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  typeset -a hits
  builtin compadd -A hits "$@"
  for hit in $hits; do print -r -- "offer:$hit" >> offers; done
}
finish() { print end >> offers; print done:; comppostfuncs=(finish) }
comppostfuncs=(finish)
print ready:
END
zpty -w shell "fpath=(${1:h} \$fpath); source $PWD/inside"
while zpty -r shell line; do [[ $line == *ready:* ]] && break; done
shift
for asked; do
  rm -f offers
  zpty -n -w shell "$asked"$'\t'
  while zpty -r shell line; do
    [[ $line == *done:* ]] && break
  done
  zpty -n -w shell $'\C-u'
  sed -n 's/^offer://p' offers
  print end of offers
done
zpty -d shell
)";
  static constexpr const char* kFish = R"(
source $argv[1]
for line in $argv[2..]
  complete -C "$line" | string replace -r '\t.*' ''
  echo end of offers
end
)";

  std::string shell_, file_;
  TemporaryFolder folder_;
};

class ShellCompletion : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_installed(GetParam())) GTEST_SKIP() << GetParam() << " is not installed";
  }
};
INSTANTIATE_TEST_SUITE_P(Of, ShellCompletion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ShellCompletion, OffersWhatTheProgramAnswers) {
  const std::pair<const char*, Words> lines[] = {
      {"banyan ver", {"verify", "version"}},  {"banyan lab ", {"up", "down"}},
      {"banyan plan --outp", {"--output"}},   {"banyan plan allreduce dgx-", {"dgx-a100:", "dgx-h100:"}},
      {"banyan fabric pla", {"plan.json"}},   {"banyan run allreduce --plan pl", {"plan.json"}},
      {"banyand ver", {"verify", "version"}}, {"./banyan ver", {"verify", "version"}},
  };
  Words asked;
  for (const auto& [line, values] : lines) asked.push_back(line);
  asked.insert(asked.end(), {"banyan bench allreduce --op sum,m", "banyan run -- banyan ver"});
  const std::vector<Words> offered = Completer(GetParam()).offers(asked);
  for (size_t i = 0; i < std::size(lines); ++i) {
    EXPECT_THAT(offered[i], ::testing::IsSupersetOf(lines[i].second)) << asked[i];
    EXPECT_THAT(offered[i], Not(Contains("plan"))) << asked[i];
  }
  EXPECT_THAT(offered[std::size(lines)],
              AllOf(Contains(::testing::EndsWith("max")), Contains(::testing::EndsWith("min"))));
  const bool has_programs = GetParam() != std::string("bash");
  EXPECT_EQ(std::count(offered.back().begin(), offered.back().end(), "verify"), has_programs) << "of a program's own";
}

TEST(BashCompletion, KeepsWhatReadlineDoesNotReplace) {
  if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  const std::vector<Words> offered =
      Completer("bash").offers({"banyan show ring:4 --format=s", "banyan export --output=pl",
                                "banyan bench --type int8,float", "banyan run -- l", "banyan run -- ls pl"});
  EXPECT_THAT(offered[0], Contains("svg"));
  EXPECT_THAT(offered[1], Contains("plan.json"));
  EXPECT_THAT(offered[2], Contains("int8,float16"));
  EXPECT_THAT(offered[3], Contains("ls"));
  EXPECT_THAT(offered[4], Contains("plan.json"));
}

// Each line of docs/pictures/README.md that is a command, as a reader would type it.
TEST(PicturesOfTheDocumentation, AreWhatTheirCommandsDraw) {
  const TemporaryFolder folder;
  const std::string pictures = BANYAN_SOURCE_DIR "/docs/pictures/";
  std::string commands = "banyan() { " BANYAN_BINARY " \"$@\"; }\nset -e\ncd '" + folder.path("") + "'\n";
  for (const std::string& line : lines_of(read_file(pictures + "README.md"))) {
    if (line.starts_with("    banyan ")) commands += line + "\n";
  }
  const Outcome outcome = run_shell(commands);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
  size_t compared = 0;
  for (const std::string& name : folder.names()) {
    if (!name.ends_with(".svg")) continue;
    EXPECT_EQ(folder.read(name), read_file(pictures + name)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 2u);
}

TEST(Completions, AreRefusedForOtherShells) {
  expect_refused({"completion", "tcsh"}, "SHELL: unknown shell 'tcsh' (known: bash, zsh, fish)");
  expect_refused({"completion"}, "SHELL is required");
  expect_refused({"completion", "bash", "ls"}, "PROGRAM: no completion of 'ls' (there are those of banyan, banyand)");
}

}  // namespace
}  // namespace banyan::app
