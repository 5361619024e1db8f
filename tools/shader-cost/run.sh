#!/usr/bin/env bash
# What every composed shader costs on AMD's RDNA2, without such a GPU: registers, spills, scratch, occupancy and the
# compiler's estimates. Fails if a shader spills, uses scratch memory, or keeps too few subgroups busy without a reason
# in exceptions.txt. Options (--brief, --json) are handed on.
set -euo pipefail
cd "$(dirname "$0")/../.."
rm -rf target/shaders
# With the Python package, as the tests build it: nothing is compiled twice.
export PYO3_BUILD_EXTENSION_MODULE=1
cargo build --quiet --release --locked --package skds --package skds-python --example shaders
target/release/examples/shaders target/shaders
cargo run --quiet --locked --package shader-cost -- "$@" target/shaders
