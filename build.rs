//! Tells the program which commit it was built from, for reports of measurements.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Outside of a checkout there is nothing to watch: naming a file that is not there would run this every time.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) =
            git(&["rev-parse", "--git-path", name]).filter(|path| std::path::Path::new(path).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=SKDS_COMMIT={commit}");
}
