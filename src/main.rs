//! The `skds` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    skds::cli::main()
}
