//! The machine that measurements were made on.

use crate::engine::gpu::adapters::Gpu;
use serde::Serialize;

/// A machine and the version of this program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// The number of threads of the CPU engine.
    pub threads: usize,
    /// The widest vector instructions of the CPU engine.
    pub instructions: &'static str,
    /// Operating system and architecture.
    pub system: String,
    /// GPUs with their drivers.
    pub gpus: Vec<String>,
    /// This program's version.
    pub version: &'static str,
    /// The commit it was built from.
    pub commit: &'static str,
}

impl Machine {
    /// This machine.
    pub fn here(gpus: &[Gpu]) -> Self {
        let described = |gpu: &Gpu| {
            format!("{}: {}, {}, driver {}", gpu.name(), gpu.kind().name(), gpu.backend(), gpu.driver())
        };
        Machine {
            cpu: processor().unwrap_or_else(|| "unknown processor".into()),
            threads: rayon::current_num_threads(),
            instructions: instructions(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            gpus: gpus.iter().map(described).collect(),
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("SKDS_COMMIT"),
        }
    }

    /// A few lines of text.
    pub fn to_text(&self) -> String {
        let Machine { cpu, threads, instructions, system, gpus, version, commit } = self;
        let mut lines = vec![format!("{cpu}, {threads} threads, {instructions}, {system}")];
        lines.extend(gpus.iter().cloned());
        lines.push(format!("skds {version}, commit {commit}"));
        lines.join("\n")
    }
}

/// The processor's name, on systems with `/proc/cpuinfo`.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            return "AVX2";
        }
    }
    #[cfg(target_arch = "aarch64")]
    return "NEON";
    #[cfg(not(target_arch = "aarch64"))]
    "the architecture's basic vector instructions"
}
