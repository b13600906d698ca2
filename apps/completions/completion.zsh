#compdef @PROGRAM@
# Completion of @PROGRAM@ for zsh. Made by 'banyan completion zsh @PROGRAM@'.

_@PROGRAM@() {
  local line text rest paths prefix is_open
  local -a open closed
  for line in "${(@f)$(${~words[1]} __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}"; do
    text=${line%%$'\t'*}
    rest=${${line#"$text"}#$'\t'}
    case $text in
      '') ;;
      :open) is_open=1 ;;
      :files | :folders) paths=$text prefix=$rest ;;
      :program)
        (( CURRENT -= ${words[(i)--]} ))
        shift ${words[(i)--]} words
        _normal
        return
        ;;
      *[:=]) open+=("${text//:/\\:}${rest:+:$rest}") ;;
      *) closed+=("${text//:/\\:}${rest:+:$rest}") ;;
    esac
  done
  [[ $is_open ]] && open+=("${closed[@]}") closed=()
  (( $#closed )) && _describe -t words word closed
  (( $#open )) && _describe -t words word open -S ''
  [[ $paths ]] || return
  compset -P "${(b)prefix}"
  [[ $paths == :folders ]] && _files -/ || _files
}

if [[ ${funcstack[1]} == _@PROGRAM@ ]]; then
  _@PROGRAM@ "$@"
else
  compdef _@PROGRAM@ @PROGRAM@
fi
