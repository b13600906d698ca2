# Completion of banyand for bash: the options of its --help.
complete -o default -F _longopt banyand
