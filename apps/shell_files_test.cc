// Manual pages and completions: what they hold is compared with --help, and they are read by the programs for which
// they are made: man, mandoc, groff; bash, zsh, fish. Where one of these is not installed, its test is skipped.
#include <sys/wait.h>

#include <cstdio>
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

// A completion of one shell: what it offers at the end of a line. One shell is asked for many lines, since zsh takes
// half a second to start.
class Completer {
 public:
  explicit Completer(const std::string& shell) : shell_(shell) {
    file_ = folder_.path("_banyan");
    const Outcome outcome = run_banyan({"completion", shell, "-o", file_});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    folder_.write("a file.json", "{}");
    folder_.write("plan.json", "{}");
    folder_.write("drive", shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  }

  // For each line, in order and once each.
  std::vector<Words> offers(const Words& lines) const {
    std::string command =
        "cd '" + folder_.path("") + "' && timeout 100 " + shell_ + flags() + " ./drive '" + file_ + "'";
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
  Words offers(const std::string& line) const { return offers(Words{line}).front(); }

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

class Completion : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_installed(GetParam())) GTEST_SKIP() << GetParam() << " is not installed";
  }
};
INSTANTIATE_TEST_SUITE_P(Of, Completion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(Completion, OffersCommands) {
  const Completer completer(GetParam());
  const Words commands = completer.offers("banyan ");
  for (const auto& [command, options] : helped().options) {
    const bool is_top = !command.empty() && command.find(' ') == std::string::npos;
    if (!is_top) continue;
    EXPECT_THAT(commands, Contains(command));
  }
  EXPECT_THAT(commands, Not(Contains("manual")));
  EXPECT_THAT(completer.offers("banyan lab "), AllOf(Contains("up"), Contains("down"), Not(Contains("plan"))));
  EXPECT_THAT(completer.offers("banyan ver"), AllOf(Contains("verify"), Contains("version"), Not(Contains("plan"))));
}

TEST_P(Completion, OffersEveryOptionOfTheHelp) {
  Words lines;
  for (const auto& [command, options] : helped().options) {
    const std::string line = "banyan " + command + (command.empty() ? "-" : " -");
    lines.insert(lines.end(), {line, line + "-"});
  }
  const std::vector<Words> all = Completer(GetParam()).offers(lines);
  size_t asked = 0;
  for (const auto& [command, options] : helped().options) {
    const std::string& line = lines[asked];
    Words offered = all[asked];
    // Where a single dash asks for short names only.
    const bool has_long =
        std::any_of(offered.begin(), offered.end(), [](const auto& each) { return each.starts_with("--"); });
    if (!has_long) offered.insert(offered.end(), all[asked + 1].begin(), all[asked + 1].end());
    asked += 2;
    // zsh offers options with a "=" that belongs to them.
    for (std::string& each : offered) each = each.substr(0, each.find('='));
    for (const std::string& option : options) EXPECT_THAT(offered, Contains(option)) << line;
  }
}

TEST_P(Completion, OffersTheValuesOfWordsAndOptions) {
  const Completer completer(GetParam());
  const std::pair<const char*, Words> lines[] = {
      {"banyan plan ", {"allgather", "allreduce", "reduce-scatter"}},
      {"banyan plan allr", {"allreduce"}},
      {"banyan plan allreduce dgx-", {"dgx-a100:", "dgx-h100:"}},
      {"banyan plan --bytes 1MiB --no-lower allreduce tor", {"torus:"}},
      {"banyan fabric leaf", {"leaf-spine:"}},
      {"banyan fabric pla", {"plan.json"}},
      {"banyan show ring:4 --format ", {"svg", "dot"}},
      {"banyan export plan.json --format m", {"msccl", "mscclpp"}},
      {"banyan export pl", {"plan.json"}},
      {"banyan run allreduce --type float", {"float16", "float32", "float64"}},
      {"banyan run allreduce --plan pl", {"plan.json"}},
      {"banyan run --transport ", {"shm", "tcp"}},
      {"banyan predict tr", {"train"}},
      {"banyan predict allg", {"allgather"}},
      {"banyan predict allgather rin", {"ring:"}},
      {"banyan predict train --model gpt3-1", {"gpt3-13b", "gpt3-175b"}},
      {"banyan predict train --gpu h", {"h100", "h200"}},
      {"banyan predict train --algorithm for", {"forest"}},
      {"banyan predict job --on-failure ", {"stop", "move", "fail"}},
      {"banyan bench all", {"allreduce", "allgather", "all-to-all", "all"}},
      {"banyan bench --axis ", {"busbw", "time"}},
      {"banyan compress --type ", {"float16", "bfloat16", "float32", "float64"}},
      {"banyan completion ", {"bash", "zsh", "fish"}},
      {"banyan help pre", {"predict"}},
  };
  Words asked;
  for (const auto& [line, values] : lines) asked.push_back(line);
  const std::vector<Words> offered = completer.offers(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_THAT(offered[i], ::testing::IsSupersetOf(lines[i].second)) << asked[i];
  }
  EXPECT_THAT(completer.offers("banyan plan --bytes "), Not(Contains("allreduce"))) << "a size is not known";
  EXPECT_THAT(completer.offers("banyan plan allreduce "), Not(Contains("allgather"))) << "one collective is enough";
}

TEST_P(Completion, OffersFurtherItemsOfAList) {
  const Completer completer(GetParam());
  const Words offered = completer.offers("banyan bench allreduce --op sum,m");
  const auto has = [&](const std::string& item) {
    return std::any_of(offered.begin(), offered.end(), [&](const std::string& each) { return each.ends_with(item); });
  };
  EXPECT_TRUE(has("max") && has("min")) << ::testing::PrintToString(offered);
}

TEST(BashCompletion, KeepsWhatReadlineDoesNotReplace) {
  if (!is_installed("bash")) GTEST_SKIP() << "bash is not installed";
  const Completer completer("bash");
  EXPECT_THAT(completer.offers("banyan show ring:4 --format=s"), Contains("svg"));
  EXPECT_THAT(completer.offers("banyan bench --type int8,float"), Contains("int8,float16"));
  EXPECT_THAT(completer.offers("banyan run -- l"), Contains("ls"));
  EXPECT_THAT(completer.offers("banyan run -- ls pl"), Contains("plan.json"));
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
}

}  // namespace
}  // namespace banyan::app
