#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, lints, all tests, doctests and documentation.
# Installs what is missing. Everything is built once, in the release profile, which the README's commands share.
set -euo pipefail
cd "$(dirname "$0")"

need() { # need COMMAND PACKAGE: installs a Debian package if its command is missing
    command -v "$1" >/dev/null && return
    command -v apt-get >/dev/null || { echo "'$1' is missing and there is no apt-get to install $2 with" >&2; exit 1; }
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    $sudo apt-get update -qq && $sudo apt-get install -y -qq "$2"
}

step() { printf '\n== %s\n' "$*"; "$@"; }

need cc gcc
for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || {
        echo "cargo $component is missing: run 'rustup component add rustfmt clippy'" >&2
        exit 1
    }
done

export RUSTDOCFLAGS="-D warnings"
step cargo fmt --check
step cargo clippy --release --locked --all-targets -- -D warnings
step cargo test --release --locked --all-targets --no-fail-fast
step cargo test --release --locked --doc
step cargo doc --release --locked --no-deps
