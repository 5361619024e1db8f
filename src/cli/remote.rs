//! The client side of `skds serve`: the same commands, run on a server.

use super::print;
use crate::data::Dataset;
use crate::files::output::write_atomically;
use crate::serve::Request;
use crate::stderr::say;
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A service.
pub(super) struct Remote {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// A job that has ended.
#[derive(Deserialize)]
pub(super) struct Ended {
    id: String,
    state: String,
    error: Option<String>,
    #[serde(default)]
    pub result: Value,
    #[serde(default)]
    pub files: Vec<String>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

impl Remote {
    /// A service at a URL; the token comes from SKDS_TOKEN.
    pub(super) fn new(url: &str) -> Result<Self> {
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(Error::invalid(format!(
                "the server is '{url}', expected an address like http://127.0.0.1:8765"
            )));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .user_agent(concat!("skds/", env!("CARGO_PKG_VERSION")))
            .build();
        let token = std::env::var("SKDS_TOKEN").ok().map(|token| token.trim().to_owned());
        Ok(Remote { url: url.trim_end_matches('/').into(), token, agent: config.into() })
    }

    fn bearer(&self) -> String {
        self.token.as_ref().map_or(String::new(), |token| format!("Bearer {token}"))
    }

    fn gone(&self, error: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{} does not answer: {error}", self.url))
    }

    fn post(&self, address: &str, body: impl ureq::AsSendBody) -> Result<ureq::http::Response<ureq::Body>> {
        let request =
            self.agent.post(format!("{}{address}", self.url)).header("authorization", self.bearer());
        self.checked(request.send(body).map_err(|error| self.gone(error))?)
    }

    fn get(&self, address: &str) -> Result<ureq::http::Response<ureq::Body>> {
        let request = self.agent.get(format!("{}{address}", self.url)).header("authorization", self.bearer());
        self.checked(request.call().map_err(|error| self.gone(error))?)
    }

    /// The response, or the error that the server gives as its reason.
    fn checked(
        &self,
        mut response: ureq::http::Response<ureq::Body>,
    ) -> Result<ureq::http::Response<ureq::Body>> {
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let said = serde_json::from_str::<Value>(&text)
            .ok()
            .and_then(|value| Some(value["error"].as_str()?.to_owned()));
        Err(Error::invalid(said.unwrap_or_else(|| format!("{} answered {}", self.url, response.status()))))
    }

    fn json<T: DeserializeOwned>(&self, mut response: ureq::http::Response<ureq::Body>) -> Result<T> {
        response.body_mut().with_config().limit(u64::MAX).read_json().map_err(|error| {
            Error::invalid(format!("{} sent an answer that cannot be read: {error}", self.url))
        })
    }

    /// Uploads a dataset: an .npz as it is, anything else as .npz.
    pub(super) fn upload_dataset(&self, path: &Path, targets: Option<&Path>) -> Result<String> {
        // Read here first, so that an error names the path on this machine.
        self.upload(&Dataset::read_files(path, targets)?, path, targets)
    }

    /// Uploads a dataset that was read from these files.
    pub(super) fn upload(&self, data: &Dataset, path: &Path, targets: Option<&Path>) -> Result<String> {
        let folder = tempfile::tempdir().map_err(|source| Error::Io {
            action: "create",
            path: path.into(),
            source,
        })?;
        let is_npz = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npz"));
        let converted = folder.path().join("data.npz");
        let sent = if is_npz && targets.is_none() {
            path
        } else {
            data.write(&converted)?;
            &converted
        };
        let name: String = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
            .take(100)
            .collect();
        let found: Named =
            self.json(self.post(&format!("/v1/datasets?name={name}.npz"), self.open(sent)?)?)?;
        Ok(found.id)
    }

    /// Uploads a model.
    pub(super) fn upload_model(&self, path: &Path) -> Result<String> {
        let found: Named = self.json(self.post("/v1/models", self.open(path)?)?)?;
        Ok(found.id)
    }

    fn open(&self, path: &Path) -> Result<std::fs::File> {
        std::fs::File::open(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })
    }

    /// Runs a job and shows its progress.
    pub(super) fn run(&self, request: &Request, json: bool) -> Result<Ended> {
        let body = serde_json::to_string(request).expect("requests serialise");
        let named: Named = self.json(self.post("/v1/jobs", body)?)?;
        let continues = format!("the job continues on the server: {}/#{}", self.url, named.id);
        // The only handler of this process: local fits set theirs elsewhere.
        let _ = ctrlc::set_handler(move || {
            say!("{continues}");
            std::process::exit(130);
        });
        let response = self.get(&format!("/v1/jobs/{}/events", named.id))?;
        let ended = self.follow(BufReader::new(response.into_body().into_reader()), json)?;
        let job: Ended = match ended {
            Some(job) => job,
            // The stream broke off; the job may have gone on.
            None => self.json(self.get(&format!("/v1/jobs/{}", named.id))?)?,
        };
        match (job.state.as_str(), &job.error) {
            ("done", _) => Ok(job),
            (_, Some(error)) => Err(Error::invalid(error.clone())),
            (state, None) => {
                Err(Error::invalid(format!("job {} is {state}, expected it to be done", job.id)))
            }
        }
    }

    /// Reads server-sent events until the last.
    fn follow(&self, events: impl BufRead, json: bool) -> Result<Option<Ended>> {
        let bar = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
            bar.set_style(style.expect("the template is valid"));
            bar
        });
        let (mut name, mut line_at) = (String::new(), Instant::now());
        for line in events.lines() {
            let Ok(line) = line else { break };
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let value: Value = serde_json::from_str(data).unwrap_or_default();
            match name.as_str() {
                "progress" => {
                    let left = value["seconds_left"].as_f64().unwrap_or(f64::NAN);
                    let share = value["share"].as_f64().unwrap_or(0.0);
                    let loss =
                        value["loss"].as_f64().map_or(String::new(), |loss| format!(", loss {loss:.3e}"));
                    match &bar {
                        Some(bar) => {
                            bar.set_position((1000.0 * share) as u64);
                            bar.set_message(format!("{left:.0} s left{loss}"));
                        }
                        None if json => print(data)?,
                        None if line_at.elapsed() >= LINE_EVERY => {
                            line_at = Instant::now();
                            say!("{:.0} %{loss}, {left:.0} s left", 100.0 * share);
                        }
                        None => {}
                    }
                }
                "log" => say!("{}", value["line"].as_str().unwrap_or("")),
                "state" if matches!(value["state"].as_str(), Some("done" | "failed" | "cancelled")) => {
                    if let Some(bar) = bar {
                        bar.finish_and_clear();
                    }
                    return Ok(serde_json::from_value(value).ok());
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Downloads a file of a job.
    pub(super) fn fetch(&self, job: &Ended, name: &str, path: &Path) -> Result<()> {
        let response = self.get(&format!("/v1/jobs/{}/files/{name}", job.id))?;
        let mut reader = response.into_body().into_reader();
        write_atomically(path, |writer| {
            let mut block = vec![0; 1 << 16];
            loop {
                match reader.read(&mut block)? {
                    0 => return Ok(()),
                    read => writer.write_all(&block[..read])?,
                }
            }
        })
    }
}

/// The device to ask for, unless it is `auto`.
pub(super) fn device(device: &crate::engine::Device) -> Option<String> {
    (*device != crate::engine::Device::Auto).then(|| device.to_string())
}

/// An id that the server gave.
pub(super) fn id<T: TryFrom<String, Error = Error>>(text: String) -> Result<T> {
    T::try_from(text)
}
