//! What was measured on.

use crate::engine::gpu::adapters::Gpu;
use serde::Serialize;

/// A machine, and the program that ran on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Threads that the CPU engine uses.
    pub threads: usize,
    /// The widest instructions that it uses.
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
    /// This one.
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

    /// In a few lines.
    pub fn to_text(&self) -> String {
        let Machine { cpu, threads, instructions, system, gpus, version, commit } = self;
        let mut lines = vec![format!("{cpu}, {threads} threads, {instructions}, {system}")];
        lines.extend(gpus.iter().cloned());
        lines.push(format!("skds {version}, commit {commit}"));
        lines.join("\n")
    }
}

/// The processor's name where the system tells it.
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
    "no vector instructions beyond the architecture's own"
}
