#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, lints, all tests, doctests and documentation.
# Installs what is missing. Everything is built once, in the release profile, which the README's commands share.
set -euo pipefail
cd "$(dirname "$0")"

install() { # install PACKAGE...: Debian packages
    command -v apt-get >/dev/null || { echo "there is no apt-get to install $* with" >&2; exit 1; }
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    $sudo apt-get update -qq && $sudo apt-get install -y -qq "$@"
}

step() { printf '\n== %s\n' "$*"; "$@"; }

command -v cc >/dev/null || install gcc
# A Vulkan device in software for the GPU engine's tests, and the compiler of AMD's driver for the cost of its shaders.
drivers=/usr/share/vulkan/icd.d
if ! ls "$drivers"/lvp_icd*.json "$drivers"/radeon_icd*.json >/dev/null 2>&1 || ! PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q 'libvulkan\.so\.1'; then
    install mesa-vulkan-drivers libvulkan1
fi
# A browser for the test of the service's page, and letters for its pictures.
command -v chromium >/dev/null || install chromium fonts-dejavu-core
# Mesa's device-selection layer looks for a desktop session and complains if there is none.
export NODEVICE_SELECT=1
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
# The README's first command.
step cargo run --release --locked --example quickstart target/quickstart.svg
# With the examples, documentation is built with the dependencies that the lints have checked already.
step cargo doc --release --locked --no-deps --lib --examples

# What every composed shader costs on AMD's RDNA2: no spilled registers, no scratch memory, enough subgroups.
cost=(--manifest-path tools/shader-cost/Cargo.toml --target-dir target/shader-cost --locked)
step cargo fmt --check --manifest-path tools/shader-cost/Cargo.toml
step cargo clippy "${cost[@]}" --all-targets -- -D warnings
step cargo test "${cost[@]}"
step tools/shader-cost/run.sh --brief
