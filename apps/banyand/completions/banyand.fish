# Completion of banyand for fish: the options of its --help.
complete -c banyand -a "(banyand --help | string match -r -g '^ +(?:-[a-zA-Z], )?(--[a-z-]+)')"
