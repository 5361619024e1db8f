//! `skds devices`: what there is to compute on, and what `auto` would take.

use super::command::Command;
use super::print_report;
use crate::Result;
use crate::bounds::bytes;
use crate::engine::gpu::adapters::{self, Gpu, GpuKind};
use crate::engine::{Chosen, Device};
use serde::Serialize;

/// List the devices that can compute, and the one that 'auto' takes
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  skds devices

  # Use a device by its index, or by a part of its name
  skds loss data.npz --params model.safetensors --device 0
  skds loss data.npz --params model.safetensors --device radeon")]
pub(super) struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    threads: usize,
    gpus: Vec<Listed>,
    auto: String,
    why: String,
}

/// One GPU.
#[derive(Serialize)]
struct Listed {
    index: usize,
    name: String,
    kind: &'static str,
    backend: String,
    driver: String,
    max_binding_bytes: u64,
    max_buffer_bytes: u64,
    max_storage_buffers: u32,
    shared_memory_bytes: u32,
    timestamps: bool,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }

    fn looks_for_gpus(&self) -> bool {
        true
    }
}

fn run(args: &Args) -> Result<()> {
    let gpus = adapters::list();
    let report = Report::new(&gpus)?;
    print_report(args.json, &report, || report.to_text())
}

impl Report {
    fn new(gpus: &[Gpu]) -> Result<Self> {
        let (auto, why) = match Device::Auto.choose(gpus)? {
            Chosen::Gpu(gpu) => (gpu.index.to_string(), format!("it is the first {} GPU", gpu.kind().name())),
            Chosen::Cpu if gpus.is_empty() => ("cpu".into(), "no GPU with a Vulkan, Metal or DirectX 12 driver was found".into()),
            Chosen::Cpu => (
                "cpu".into(),
                "there are only software adapters, which are slower than the CPU engine; ask for one by 'gpu', index or name".into(),
            ),
        };
        let gpus = gpus.iter().map(Listed::new).collect();
        Ok(Report { threads: rayon::current_num_threads(), gpus, auto, why })
    }

    fn to_text(&self) -> String {
        let mut lines = vec![format!("cpu  the CPU engine: {} threads, f32 and f64", self.threads)];
        for gpu in &self.gpus {
            let note = if gpu.kind == GpuKind::Software.name() { ", for tests" } else { "" };
            lines.push(format!(
                "{:<4} {}: {}{note}, {}, driver {}, f32",
                gpu.index, gpu.name, gpu.kind, gpu.backend, gpu.driver
            ));
            lines.push(format!(
                "     bindings to {}, buffers to {}, {} storage buffers, {} KiB shared memory, {} timestamps",
                bytes(gpu.max_binding_bytes),
                bytes(gpu.max_buffer_bytes),
                gpu.max_storage_buffers,
                gpu.shared_memory_bytes >> 10,
                if gpu.timestamps { "with" } else { "no" }
            ));
        }
        lines.push(format!("\nauto takes {}: {}", self.auto, self.why));
        lines.join("\n")
    }
}

impl Listed {
    fn new(gpu: &Gpu) -> Self {
        let limits = gpu.limits();
        Listed {
            index: gpu.index,
            name: gpu.name().to_owned(),
            kind: gpu.kind().name(),
            backend: gpu.backend().to_owned(),
            driver: gpu.driver().to_owned(),
            max_binding_bytes: limits.binding_bytes,
            max_buffer_bytes: limits.buffer_bytes,
            max_storage_buffers: limits.storage_buffers,
            shared_memory_bytes: limits.shared_bytes,
            timestamps: gpu.has_timestamps(),
        }
    }
}
