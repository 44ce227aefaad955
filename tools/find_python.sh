#!/bin/sh
# Prints the interpreter for the set-up: $PYTHON if it is set, else the first on the path that is new
# enough. An interpreter that can create virtual environments is preferred.
set -u

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
complete() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if [ -n "${PYTHON:-}" ]; then
    if suits "$PYTHON"; then
        echo "$PYTHON"
        exit 0
    fi
    echo "error: PYTHON=$PYTHON is not a Python of version 3.11 or newer" >&2
    exit 1
fi

second_best=
for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
    suits "$name" || continue
    if complete "$name"; then
        echo "$name"
        exit 0
    fi
    [ -n "$second_best" ] || second_best=$name
done
if [ -n "$second_best" ]; then
    echo "$second_best"
    exit 0
fi

echo "error: no Python of version 3.11 or newer on the path" >&2
echo "hint:  install one, or name it: make PYTHON=/path/to/python3.11 venv" >&2
exit 1
