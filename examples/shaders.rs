//! Writes every composed shader, one file each, into a folder: to read them, or to hand them to another tool.
//!
//!     cargo run --release --example shaders -- target/shaders

use skds::engine::gpu::compose::every_shader;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!(
            "error: expected the folder to write to, as in 'cargo run --release --example shaders -- target/shaders'"
        );
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(count) => {
            println!("{count} shaders written to {folder}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: cannot write shaders to {folder}: {problem}");
            ExitCode::from(2)
        }
    }
}

fn write(folder: &str) -> Result<usize, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    let all = every_shader()?;
    for (_, composed) in &all {
        std::fs::write(format!("{folder}/{}.wgsl", composed.label), &composed.source)?;
    }
    Ok(all.len())
}
