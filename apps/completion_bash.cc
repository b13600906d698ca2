#include "apps/completion.h"

namespace banyan::app {
namespace {

// The parts that are the same for every program. bash cuts words at ':' and '=', so the script puts them together again
// and offers only what comes after the last of these characters.
constexpr const char* kBashBegin = R"bash(# Completion of banyan for bash. Made by 'banyan completion bash'.

_banyan_files() {  # names of files (or, with -d, of folders) that begin with $cur
  local name
  while IFS= read -r name; do
    COMPREPLY+=("$name")
  done < <(compgen "${1:--f}" -- "$cur")
  compopt -o filenames 2> /dev/null
}

_banyan_words() {  # those of the words that begin with $cur
  local word
  for word in "$@"; do
    [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
  done
}

_banyan_list() {  # the same of the last item of a list with commas
  local before=
  [[ $cur == *,* ]] && before=${cur%,*},
  local word
  for word in "$@"; do
    [[ ,$before == *",$word,"* ]] && continue
    [[ $before$word == "$cur"* ]] && COMPREPLY+=("$before$word")
  done
  compopt -o nospace 2> /dev/null
}

)bash";

constexpr const char* kBashEnd = R"bash(
_banyan() {
  COMPREPLY=()
  # The words up to the cursor, as the shell will pass them on.
  local line=$COMP_LINE piece i
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    piece=${COMP_WORDS[i]}
    if ((i > 0)) && [[ $line != [[:blank:]]* ]]; then
      words[${#words[@]}-1]+=$piece
    else
      words+=("$piece")
    fi
    line=${line#"${line%%[![:blank:]]*}"}
    line=${line#"$piece"}
  done
  local last=$((${#words[@]} - 1))
  local cur=${words[last]} command=banyan at=1
  while ((at < last)) && _banyan_is_command "$command ${words[at]}"; do
    command+=" ${words[at]}"
    ((at++))
  done
  # Plain words before this one, and the option whose value this is.
  local plain=0 option= word
  for ((i = at; i < last; i++)); do
    word=${words[i]}
    if [[ $option ]]; then
      option=
    elif [[ $word == -- ]]; then
      # A program of the user, with its own completion where there is one.
      if ((i + 1 == last)); then
        COMPREPLY=($(compgen -c -- "$cur"))
      else
        _banyan_files
      fi
      return
    elif [[ $word == --*=* ]]; then
      :
    elif _banyan_takes_value "$command $word"; then
      option=$word
    elif [[ $word != -* ]]; then
      ((plain++))
    fi
  done
  if [[ $option ]]; then
    _banyan_value "$command $option"
  elif [[ $cur == --*=* ]]; then
    option=${cur%%=*}
    cur=${cur#*=}
    _banyan_value "$command $option"
    COMPREPLY=("${COMPREPLY[@]/#/"$option="}")
    cur=$option=$cur
  elif [[ $cur == -* ]]; then
    _banyan_options "$command"
  else
    ((plain == 0)) && _banyan_subcommands "$command"
    _banyan_value "$command $plain"
  fi
  # A word that goes on gets no blank.
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[:=] ]] && compopt -o nospace 2> /dev/null
  # readline replaces what comes after the last of its word breaks.
  local head=${cur%"${cur##*[:=]}"}
  if [[ $head && $COMP_WORDBREAKS == *"${head: -1}"* ]]; then
    for i in "${!COMPREPLY[@]}"; do
      COMPREPLY[i]=${COMPREPLY[i]#"$head"}
    done
  fi
}

complete -F _banyan banyan
)bash";

// What _banyan_value does for an option or a word.
std::string bash_action(const OptionSyntax& option) {
  std::string action;
  if (!option.values.empty()) {
    action = std::string(option.is_list ? "_banyan_list" : "_banyan_words") + " " + joined(option.values);
  }
  const bool has_paths = option.paths != OptionSyntax::Paths::none;
  if (has_paths) {
    action += (action.empty() ? "" : "; ");
    action += option.paths == OptionSyntax::Paths::folders ? "_banyan_files -d" : "_banyan_files";
  }
  return action.empty() ? ":" : action;
}

std::string case_line(const std::string& pattern, const std::string& action) {
  return "    " + pattern + ") " + action + " ;;\n";
}

std::string function_of_cases(const char* name, const std::string& cases, const std::string& otherwise) {
  return std::string(name) + "() {\n  case $1 in\n" + cases + "    *) " + otherwise + " ;;\n  esac\n}\n\n";
}

}  // namespace

std::string bash_completion(const CommandSyntax& program) {
  std::string commands, with_value, values, options, subcommands;
  for (const CommandSyntax* const command : all_commands(program)) {
    if (command != &program) commands += (commands.empty() ? "" : " | ") + shell_quoted(command->name());
    std::vector<std::string> verbs, names = {"-h", "--help"};
    for (const CommandSyntax* const each : shown_commands(*command)) verbs.push_back(each->verb());
    if (!verbs.empty()) subcommands += case_line(shell_quoted(command->name()), "_banyan_words " + joined(verbs));
    for (const OptionSyntax* const option : options_of(*command)) {
      std::string pattern;
      for (const std::string& name : option->all_names()) {
        names.push_back(name);
        pattern += (pattern.empty() ? "" : " | ") + shell_quoted(command->name() + " " + name);
      }
      if (option->is_flag()) continue;
      with_value += case_line(pattern, "return 0");
      values += case_line(pattern, bash_action(*option));
    }
    options += case_line(shell_quoted(command->name()), "_banyan_words " + joined(names));
    const std::vector<const OptionSyntax*> words = words_of(*command);
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string place = words[i]->takes_rest ? "*" : std::to_string(i);
      values +=
          case_line(shell_quoted(command->name() + " ") + (place == "*" ? "[0-9]*" : place), bash_action(*words[i]));
    }
  }
  return kBashBegin + function_of_cases("_banyan_is_command", case_line(commands, "return 0"), "return 1") +
         function_of_cases("_banyan_takes_value", with_value, "return 1") +
         function_of_cases("_banyan_value", values, ":") + function_of_cases("_banyan_options", options, ":") +
         function_of_cases("_banyan_subcommands", subcommands, ":") + std::string(kBashEnd + 1);
}

}  // namespace banyan::app
