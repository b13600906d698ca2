# Completion of @PROGRAM@ for bash. Made by 'banyan completion bash @PROGRAM@'.

_@PROGRAM@_paths() {  # names of files (-f) or folders (-d) behind a part of the word
  local name
  while IFS= read -r name; do
    COMPREPLY+=("$2$name")
  done < <(compgen "$1" -- "${cur#"$2"}")
  compopt -o filenames 2> /dev/null
}

_@PROGRAM@() {
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
  local cur=${words[last]} text rest
  while IFS=$'\t' read -r text rest; do
    case $text in
      :open) compopt -o nospace 2> /dev/null ;;
      :files) _@PROGRAM@_paths -f "$rest" ;;
      :folders) _@PROGRAM@_paths -d "$rest" ;;
      :program)
        if [[ ${words[last - 1]} == -- ]]; then
          COMPREPLY=($(compgen -c -- "$cur"))
        else
          _@PROGRAM@_paths -f
        fi
        ;;
      *) COMPREPLY+=("$text") ;;
    esac
  done < <("${words[0]/#\~\//$HOME/}" __complete "${words[@]:1}" 2> /dev/null)
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

complete -F _@PROGRAM@ @PROGRAM@
