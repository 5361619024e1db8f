//! The report of all measurements, as text and as files.

use super::machine::Machine;
use super::memory::Memory;
use super::roofline::Roofline;
use super::scaling::Sweep;
use super::training::StepRow;
use super::{Measurement, Steadiness, paper, peers};
use crate::Result;
use crate::files::output::{create_folder, write_atomically};
use crate::plot::write_grid;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The measurements of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceReport {
    /// The device's name.
    pub device: String,
    /// Whether it is a software GPU, whose times say nothing about hardware.
    pub software: bool,
    /// The paper's table.
    pub paper: Vec<paper::KernelTimes>,
    /// The growth of time with size.
    pub scaling: Vec<Sweep>,
    /// Training steps.
    pub steps: Vec<StepRow>,
    /// Exact fits.
    pub fits: Vec<Measurement>,
    /// The comparison with the device's limits.
    pub roofline: Option<Roofline>,
}

/// All measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The measurements of each device.
    pub devices: Vec<DeviceReport>,
    /// Peak memory.
    pub memory: Vec<Memory>,
    /// The peers' versions.
    pub peers_description: Option<String>,
    /// The comparisons with peers.
    pub peers: Vec<peers::PeerTimes>,
    /// The total time.
    pub seconds: f64,
}

impl Report {
    /// All measurements, in order.
    pub fn records(&self) -> Vec<&Measurement> {
        let mut all = Vec::new();
        for device in &self.devices {
            all.extend(device.paper.iter().flat_map(|row| [&row.skds, &row.kds]));
            all.extend(device.scaling.iter().flat_map(|sweep| sweep.records.iter().flatten()));
            all.extend(device.steps.iter().flat_map(|row| std::iter::once(&row.step).chain(&row.products)));
            all.extend(&device.fits);
            all.extend(device.roofline.iter().flat_map(|r| r.paths.iter().map(|path| &path.record)));
        }
        all.extend(self.peers.iter().flat_map(|row| [&row.ours, &row.theirs]));
        all
    }

    /// A warning if too many measurements are noisy.
    pub fn warning(&self) -> Option<String> {
        let records = self.records();
        let noisy = records.iter().filter(|record| record.noise == Steadiness::Noisy).count();
        (4 * noisy > records.len()).then(|| {
            format!(
                "{noisy} of {} measurements are noisy: their interquartile range exceeds 20 % of the median. Close other \
                 programs and measure again before you compare.",
                records.len()
            )
        })
    }

    /// Writes `bench.json`, `bench.csv` and, if scaling was measured, pictures of it. Returns the paths of the files.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        create_folder(folder)?;
        let mut files = vec![folder.join("bench.json"), folder.join("bench.csv")];
        write_atomically(&files[0], |writer| {
            serde_json::to_writer_pretty(&mut *writer, self)?;
            writer.write_all(b"\n")
        })?;
        write_atomically(&files[1], |writer| {
            let Machine { cpu, threads, instructions, system, gpus, version, commit } = &self.machine;
            writeln!(writer, "# {cpu}, {threads} threads, {instructions}, {system}")?;
            gpus.iter().try_for_each(|gpu| writeln!(writer, "# {gpu}"))?;
            writeln!(writer, "# skds {version}, commit {commit}")?;
            let mut csv = ::csv::Writer::from_writer(writer);
            csv.write_record(Measurement::COLUMNS)?;
            self.records().into_iter().try_for_each(|record| csv.write_record(record.fields()))?;
            csv.flush()
        })?;
        for device in self.devices.iter().filter(|device| !device.scaling.is_empty()) {
            let panels: Vec<_> = device.scaling.iter().map(Sweep::panel).collect();
            let title = match device.software {
                true => format!("{}: software, not the speed of a GPU", device.device),
                false if device.device == "cpu" => {
                    format!("{}, {} threads", self.machine.cpu, self.machine.threads)
                }
                false => device.device.clone(),
            };
            let name: String =
                device.device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            for ending in ["svg", "png"] {
                let path = folder.join(format!("scaling-{}.{ending}", name.trim_matches('-').to_lowercase()));
                write_grid(&path, &title, 2, &panels)?;
                files.push(path);
            }
        }
        Ok(files)
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut parts = vec![self.machine.to_text()];
        for device in &self.devices {
            let name = match device.software {
                true => format!("{} (software: not the speed of a GPU)", device.device),
                false => device.device.clone(),
            };
            if !device.paper.is_empty() {
                parts.push(paper::text(&name, &device.paper));
            }
            if !device.scaling.is_empty() {
                parts.push(format!("{name}: scaling"));
                parts.extend(device.scaling.iter().map(Sweep::to_text));
            }
            if !device.steps.is_empty() {
                parts.push(super::training::text(&name, &device.steps, &device.fits));
            }
            if let Some(roofline) = &device.roofline {
                parts.push(super::roofline::text(&name, roofline));
            }
        }
        if !self.memory.is_empty() {
            parts.push(super::memory::text(&self.memory));
        }
        if !self.peers.is_empty() {
            parts.push(peers::text(self.peers_description.as_deref().unwrap_or(""), &self.peers));
        }
        parts.extend(self.warning().map(|warning| format!("warning: {warning}")));
        parts.push(format!("{:.1} s", self.seconds));
        parts.join("\n\n")
    }
}
