#!/usr/bin/env bash
# Everything that must hold before a change lands: formatting, lints, all tests, doctests and documentation.
# Everything is built once, in the release profile, which the README's commands share.
#
#   ./test.sh             names the Debian packages that are missing and asks before it installs them
#   ./test.sh --install   installs them without asking
set -euo pipefail
cd "$(dirname "$0")"

install=ask
case "${1:-}" in
    "") ;;
    --install) install=yes ;;
    *) echo "test.sh: found the argument '$1', expected none or --install" >&2; exit 2 ;;
esac

missing=()
command -v cc >/dev/null || missing+=(gcc)
# A Vulkan device in software for the tests of the GPU engine, and the compiler of AMD's driver for the cost of its shaders.
drivers=/usr/share/vulkan/icd.d
if ! ls "$drivers"/lvp_icd*.json "$drivers"/radeon_icd*.json >/dev/null 2>&1 ||
    ! PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q 'libvulkan\.so\.1'; then
    missing+=(mesa-vulkan-drivers libvulkan1)
fi
# A browser for the test of the service's page and for the compiler of its shaders, and a font for pictures.
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
# The Python package and its tests.
python3 -c "import ensurepip, venv" 2>/dev/null || missing+=(python3 python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
    sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    echo "The tests need these Debian packages: ${missing[*]}"
    if [ $install = ask ] && [ -t 0 ]; then
        read -r -p "Install them with '${sudo[*]:+${sudo[*]} }apt-get install ${missing[*]}'? [y/N] " answer
        case "$answer" in [yY]*) install=yes ;; esac
    fi
    if [ $install != yes ]; then
        echo "Install them, or run './test.sh --install'." >&2
        exit 2
    fi
    command -v apt-get >/dev/null || { echo "There is no apt-get to install them with." >&2; exit 2; }
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq "${missing[@]}"
fi

step() { printf '\n== %s\n' "$*"; "$@"; }

# Mesa's device-selection layer looks for a desktop session and complains if there is none.
export NODEVICE_SELECT=1
for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || {
        echo "cargo $component is missing: run 'rustup component add rustfmt clippy'" >&2
        exit 1
    }
done

export RUSTDOCFLAGS="-D warnings"
# The Python package is part of every build, so that all share the same dependencies. As maturin says, it needs no libpython.
export PYO3_BUILD_EXTENSION_MODULE=1
packages=(--package skds --package skds-python)
step cargo fmt --all --check
step cargo clippy --release --locked "${packages[@]}" --all-targets -- -D warnings
# The useful combinations of features: the mathematics alone, with each of its parts, and the command without a service.
for features in "" ndarray gpu plot h5ad gpu,cli; do
    step cargo clippy --release --locked --lib --no-default-features --features "$features" -- -D warnings
done
# The mathematics alone also compiles for browsers, where that target is installed.
if ls "$(rustc --print sysroot)/lib/rustlib" | grep -q wasm32-unknown-unknown; then
    step cargo check --release --locked --lib --no-default-features --target wasm32-unknown-unknown
else
    printf '\n== the target wasm32-unknown-unknown is not installed: its check is left out\n'
fi
if cargo deny --version >/dev/null 2>&1; then
    step cargo deny --offline --locked check bans licenses sources
else
    printf '\n== cargo-deny is not installed: the check of licences and sources is left out\n'
fi
step cargo test --release --locked "${packages[@]}" --all-targets --no-fail-fast
step cargo test --release --locked "${packages[@]}" --doc
# The mathematics alone: without a GPU, pictures, a command line and a service.
step cargo test --release --locked --lib --no-default-features --features ndarray
# The README's first command, with the dependencies that the tests have built.
step cargo build --release --locked "${packages[@]}" --example quickstart
step target/release/examples/quickstart target/quickstart.svg
# With the examples, documentation is built with the dependencies that the lints have checked already.
step cargo doc --release --locked "${packages[@]}" --no-deps --lib --examples

# The Python package as people install it, in an environment of its own; its tests and the examples of its documentation.
python=target/python
step python3 -m venv --clear $python
step $python/bin/pip install --quiet --disable-pip-version-check "./python[test]"
step $python/bin/ruff check python
(cd python && step ../$python/bin/pytest --doctest-modules --pyargs skds tests)

# What every composed shader costs on AMD's RDNA2: no spilled registers, no scratch memory, enough subgroups.
step cargo fmt --check --package shader-cost
step cargo clippy --locked --package shader-cost --all-targets -- -D warnings
step cargo test --locked --package shader-cost
step tools/shader-cost/run.sh --brief
