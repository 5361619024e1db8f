//! `skds --server`: the same commands, run on a server.

use super::print;
use crate::Result;
use crate::client::{Client, Event};
pub(super) use crate::client::{Ended, device_name as device, id};
use crate::data::Dataset;
use crate::serve::Request;
use crate::stderr::say;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// A service, as commands use it.
pub(super) struct Remote {
    client: Client,
}

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl Remote {
    /// A service at a URL; the token comes from SKDS_TOKEN.
    pub(super) fn new(url: &str) -> Result<Self> {
        Ok(Remote { client: Client::new(url, std::env::var("SKDS_TOKEN").ok())? })
    }

    /// Uploads a dataset: an .npz as it is, anything else as .npz.
    pub(super) fn upload_dataset(&self, path: &Path, targets: Option<&Path>) -> Result<String> {
        // Read here first, so that an error names the path on this machine.
        self.upload(&Dataset::read_files(path, targets)?, path, targets)
    }

    /// Uploads a dataset that was read from these files.
    pub(super) fn upload(&self, data: &Dataset, path: &Path, targets: Option<&Path>) -> Result<String> {
        let is_npz = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npz"));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        match is_npz && targets.is_none() {
            true => self.client.upload_file(path, &name),
            false => self.client.upload(data, &name),
        }
    }

    /// Uploads a model.
    pub(super) fn upload_model(&self, path: &Path) -> Result<String> {
        self.client.upload_model(path)
    }

    /// Runs a job and shows its progress.
    pub(super) fn run(&self, request: &Request, json: bool) -> Result<Ended> {
        let job = self.client.submit(request)?;
        let continues = format!("the job continues on the server: {}", self.client.page_of(&job));
        // The only handler of this process: local fits set theirs elsewhere.
        let _ = ctrlc::set_handler(move || {
            say!("{continues}");
            std::process::exit(130);
        });
        let bar = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
            bar.set_style(style.expect("the template is valid"));
            bar
        });
        let mut line_at = Instant::now();
        let ended = self.client.follow(&job, &mut |event| {
            match event {
                Event::Log(line) => say!("{line}"),
                Event::Progress(text) if json => print(text)?,
                Event::Progress(text) => show(text, bar.as_ref(), &mut line_at),
            }
            Ok(())
        });
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        ended
    }

    /// Downloads a file of a job.
    pub(super) fn fetch(&self, job: &Ended, name: &str, path: &Path) -> Result<()> {
        self.client.fetch(job, name, path)
    }

    /// Downloads the model of a fit to `data`.
    pub(super) fn fetch_model(&self, job: &Ended, data: &Dataset, path: &Path) -> Result<()> {
        self.client.fetch_model(job, data, path)
    }
}

/// Shows how far a job is, on a bar or in plain lines.
fn show(text: &str, bar: Option<&ProgressBar>, line_at: &mut Instant) {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let left = value["seconds_left"].as_f64().unwrap_or(f64::NAN);
    let share = value["share"].as_f64().unwrap_or(0.0);
    let loss = value["loss"].as_f64().map_or(String::new(), |loss| format!(", loss {loss:.3e}"));
    match bar {
        Some(bar) => {
            bar.set_position((1000.0 * share) as u64);
            bar.set_message(format!("{left:.0} s left{loss}"));
        }
        None if line_at.elapsed() >= LINE_EVERY => {
            *line_at = Instant::now();
            say!("{:.0} %{loss}, {left:.0} s left", 100.0 * share);
        }
        None => {}
    }
}
