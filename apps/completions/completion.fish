# Completion of @PROGRAM@ for fish. Made by 'banyan completion fish @PROGRAM@'.

function __@PROGRAM@_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    for line in ($program __complete $words $last 2> /dev/null)
        set -l parts (string split -m 1 \t -- $line)
        switch $parts[1]
            case :open
            case :files :folders
                set -l begun (string sub -s (math 1 + (string length -- $parts[2])) -- $last)
                set -l names (test $parts[1] = :files; and __fish_complete_path $begun
                    or __fish_complete_directories $begun)
                for name in $names
                    echo -- $parts[2]$name
                end
            case :program
                set -e words[1..(contains -i -- -- $words)]
                complete -C (string join ' ' -- (string escape -- $words) $last)
            case '*'
                echo -- $line
        end
    end
end

complete -c @PROGRAM@ -f -a '(__@PROGRAM@_complete)'
