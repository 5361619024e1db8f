//! What every composed WGSL shader costs on an AMD RDNA2 GPU, without having one.
//!
//! Mesa's radv driver compiles pipelines for a GPU that is not there (its "null device"). This tool hands
//! it every entry point of the shaders in a directory, prints what its compiler reports, and judges it: no
//! shader may spill registers or use scratch memory, and each must leave room for at least 8 of the 16
//! subgroups a SIMD can hold, unless `exceptions.txt` says why not. The inner loops of products are counted
//! in the assembly, and none may cost more than `held.txt` says. Latency and inverse throughput are the
//! compiler's own estimates in cycles: good for comparing two versions of a shader, not as times.
//!
//! It is a package of its own because talking to Vulkan needs `unsafe` code, which the main crate forbids;
//! here it is confined to the module [`radv`].

mod assembly;
mod compile;
mod held;
mod radv;
mod report;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io, os::unix::process::CommandExt};

const USAGE: &str = "\
Usage: shader-cost [--brief] [--json] DIR

Compiles every entry point of DIR/*.wgsl for AMD RDNA2 with Mesa's radv and prints what it costs.

  --brief  only the worst row of each stage (the label up to its first dot), then the verdict
  --json   rows as JSON lines; the verdict goes to standard error

Exit code: 0 if every shader passes, 1 if one fails, 2 if the tool could not run.";

/// Set in the environment of the second run, the one that has the driver's settings.
const READY: &str = "SHADER_COST_READY";

fn main() -> ExitCode {
    let (options, paths): (Vec<_>, Vec<_>) =
        env::args_os().skip(1).partition(|argument| argument.to_string_lossy().starts_with('-'));
    let has = |name| options.iter().any(|option| option == name);
    if has("--help") || has("-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let known = options.iter().all(|option| option == "--brief" || option == "--json");
    let outcome = match &paths[..] {
        [directory] if known => run(directory.as_ref(), has("--brief"), has("--json")),
        _ => Err(format!("wrong arguments\n\n{USAGE}")),
    };
    match outcome {
        Ok(good) => ExitCode::from(if good { 0 } else { 1 }),
        Err(message) => {
            eprintln!("shader-cost: {}", message.trim_end());
            ExitCode::from(2)
        }
    }
}

/// Whether all shaders pass.
fn run(directory: &Path, brief: bool, json: bool) -> Result<bool, String> {
    let exceptions = report::parse_exceptions(include_str!("../exceptions.txt"))?;
    let held = held::parse(include_str!("../held.txt"))?;
    let shaders = files_in(directory, |name| name.ends_with(".wgsl"))
        .map_err(|e| format!("cannot read {}: {e}", directory.display()))?;
    if shaders.is_empty() {
        return Err(format!("no .wgsl files in {}", directory.display()));
    }
    if env::var_os(READY).is_none() {
        return Err(restart_with_driver());
    }

    let radv = radv::Radv::open()?;
    let (mut rows, mut loops) = (Vec::new(), Vec::new());
    for path in shaders {
        let source = fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let label = path.file_stem().unwrap_or_default().to_string_lossy();
        for kernel in compile::kernels(&source, radv.robust_buffers).map_err(|e| format!("{label}: {e}"))? {
            let in_shader = |e| format!("{label}, {}: {e}", kernel.entry);
            let found = radv.compile(&kernel).map_err(in_shader)?;
            rows.push(report::Row::new(&label, &kernel.entry, &found.statistics).map_err(in_shader)?);
            loops.push((label.to_string(), assembly::inner_loop(&found.assembly)));
        }
    }

    let mut verdict = report::judge(&rows, &exceptions);
    let products = held::judge(&loops, &held, &mut verdict);
    let shown = if brief { report::worst_per_stage(&rows) } else { rows.iter().collect() };
    if json {
        print!("{}", report::json_lines(&shown));
        eprint!("{verdict}");
    } else {
        print!("{}, {} entry points\n\n{}\n", radv.name, rows.len(), report::table(&shown));
        print!("{products}\n{verdict}");
    }
    Ok(verdict.failures.is_empty())
}

/// The files in a directory whose names are wanted, sorted.
fn files_in(directory: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(directory)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| wanted(&file.file_name().unwrap_or_default().to_string_lossy()));
    files.sort();
    Ok(files)
}

/// Starts this program again in its own place with radv and its null device chosen: the Vulkan loader and
/// Mesa read them from the environment, and a process can change its own only with `unsafe` code. Returns
/// only if that fails, with the reason.
fn restart_with_driver() -> String {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let is_radv = |name: &str| name.starts_with("radeon_icd") && name.ends_with(".json");
    let found = folders.iter().flat_map(|folder| files_in(Path::new(folder), is_radv).unwrap_or_default());
    let drivers = env::join_paths(found).unwrap_or_default();
    if drivers.is_empty() {
        return "Mesa's radv driver is missing: install mesa-vulkan-drivers and libvulkan1.".into();
    }
    let error = Command::new(env::current_exe().unwrap_or_default())
        .args(env::args_os().skip(1))
        .env(READY, "1")
        .env("VK_DRIVER_FILES", &drivers)
        .env("VK_ICD_FILENAMES", &drivers) // its name in older loaders
        .env("RADV_FORCE_FAMILY", radv::FAMILY)
        .env("AMD_FORCE_FAMILY", radv::FAMILY) // its name in newer Mesa
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .env_remove("RADV_DEBUG")
        .env_remove("RADV_PERFTEST")
        .env_remove("ACO_DEBUG")
        .exec();
    format!("could not start again with the driver's settings: {error}")
}
