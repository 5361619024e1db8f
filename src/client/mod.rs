//! The client side of a service: uploads, jobs and what comes of them, over HTTP.

use crate::data::Dataset;
use crate::engine::Device;
use crate::files::output::write_atomically;
use crate::fit::{Edge, Settings};
use crate::model::Model;
use crate::serve::{FitRequest, Request};
use crate::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The longest name of an uploaded dataset.
const LONGEST_NAME: usize = 100;

/// A service.
pub struct Client {
    url: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// A job that has ended.
#[derive(Debug, Deserialize)]
pub struct Ended {
    id: String,
    state: String,
    error: Option<String>,
    /// What the job has found.
    #[serde(default)]
    pub result: Value,
    /// The names of its files.
    #[serde(default)]
    pub files: Vec<String>,
}

/// What a service says of a job on its way.
#[derive(Debug)]
pub enum Event<'a> {
    /// How far it is, as the service says it.
    Progress(&'a str),
    /// A line of its log.
    Log(&'a str),
}

/// A fit that a service does.
#[derive(Clone, Debug, Default)]
pub struct RemoteFit {
    /// Its settings.
    pub settings: Settings,
    /// What is known of effects.
    pub edges: Vec<Edge>,
    /// Resamples for intervals.
    pub bootstrap: Option<usize>,
    /// Where the service computes.
    pub device: Device,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Client {
    /// A service at a URL, with the token that it asks for.
    pub fn new(url: &str, token: Option<String>) -> Result<Self> {
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
        Ok(Client { url: url.trim_end_matches('/').into(), token, agent: config.into() })
    }

    /// The address where people see a job.
    pub fn page_of(&self, job: &str) -> String {
        format!("{}/#{job}", self.url)
    }

    fn bearer(&self) -> String {
        self.token.as_ref().map_or(String::new(), |token| format!("Bearer {}", token.trim()))
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

    /// Uploads a dataset under a name, and returns its id.
    pub fn upload(&self, data: &Dataset, name: &str) -> Result<String> {
        let folder = temporary_folder()?;
        let path = folder.path().join("data.npz");
        data.write(&path)?;
        self.upload_file(&path, name)
    }

    /// Uploads an `.npz` file under a name, and returns its id.
    pub fn upload_file(&self, path: &Path, name: &str) -> Result<String> {
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
            .take(LONGEST_NAME)
            .collect();
        let found: Named = self.json(self.post(&format!("/v1/datasets?name={name}.npz"), open(path)?)?)?;
        Ok(found.id)
    }

    /// Uploads a model, and returns its id.
    pub fn upload_model(&self, path: &Path) -> Result<String> {
        let found: Named = self.json(self.post("/v1/models", open(path)?)?)?;
        Ok(found.id)
    }

    /// Submits a job, and returns its id.
    pub fn submit(&self, request: &Request) -> Result<String> {
        let body = serde_json::to_string(request).expect("requests serialise");
        let named: Named = self.json(self.post("/v1/jobs", body)?)?;
        Ok(named.id)
    }

    /// Follows a job to its end. An error of `listen` ends the following; the job goes on.
    pub fn follow(&self, job: &str, listen: &mut dyn FnMut(Event<'_>) -> Result<()>) -> Result<Ended> {
        let response = self.get(&format!("/v1/jobs/{job}/events"))?;
        let ended = events(BufReader::new(response.into_body().into_reader()), listen)?;
        let job: Ended = match ended {
            Some(ended) => ended,
            // The stream broke off; the job may have gone on.
            None => self.json(self.get(&format!("/v1/jobs/{job}"))?)?,
        };
        match (job.state.as_str(), &job.error) {
            ("done", _) => Ok(job),
            (_, Some(error)) => Err(Error::invalid(error.clone())),
            (state, None) => {
                Err(Error::invalid(format!("job {} is {state}, expected it to be done", job.id)))
            }
        }
    }

    /// Downloads a file of a job.
    pub fn fetch(&self, job: &Ended, name: &str, path: &Path) -> Result<()> {
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

    /// Downloads the model of a fit. It remembers the cells that the service never saw.
    pub fn fetch_model(&self, job: &Ended, data: &Dataset, path: &Path) -> Result<()> {
        self.fetch(job, "model.safetensors", path)?;
        if data.cells().is_some() {
            Model { cells: data.cells().cloned(), ..Model::read(path)? }.save(path)?;
        }
        Ok(())
    }

    /// Fits a model to data, which the service knows under a name, and returns it with what the service has to say of it.
    pub fn fit(
        &self,
        (data, name): (&Dataset, &str),
        fit: RemoteFit,
        listen: &mut dyn FnMut(Event<'_>) -> Result<()>,
    ) -> Result<(Model, Value)> {
        let RemoteFit { settings, edges, bootstrap, device } = fit;
        settings.settle()?;
        let request = Request::Fit(FitRequest {
            dataset: id(self.upload(data, name)?)?,
            settings: Box::new(settings),
            edges,
            bootstrap,
            device: device_name(&device),
        });
        let ended = self.follow(&self.submit(&request)?, listen)?;
        let folder = temporary_folder()?;
        let path = folder.path().join("model.safetensors");
        self.fetch_model(&ended, data, &path)?;
        Ok((Model::read(&path)?, ended.result))
    }
}

fn temporary_folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|source| Error::Io { action: "create", path: "a folder".into(), source })
}

fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path).map_err(|source| Error::Io { action: "read", path: path.into(), source })
}

/// Reads server-sent events until the last.
fn events(lines: impl BufRead, listen: &mut dyn FnMut(Event<'_>) -> Result<()>) -> Result<Option<Ended>> {
    let mut name = String::new();
    for line in lines.lines() {
        let Ok(line) = line else { break };
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        match name.as_str() {
            "progress" => listen(Event::Progress(data))?,
            "log" => {
                let value: Value = serde_json::from_str(data).unwrap_or_default();
                listen(Event::Log(value["line"].as_str().unwrap_or("")))?;
            }
            "state" => {
                let value: Value = serde_json::from_str(data).unwrap_or_default();
                if matches!(value["state"].as_str(), Some("done" | "failed" | "cancelled")) {
                    return Ok(serde_json::from_value(value).ok());
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The device to ask a service for, unless it is `auto`.
pub fn device_name(device: &Device) -> Option<String> {
    (*device != Device::Auto).then(|| device.to_string())
}

/// An id that the server gave.
pub fn id<T: TryFrom<String, Error = Error>>(text: String) -> Result<T> {
    T::try_from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_until_the_last() {
        let stream = "event: progress\ndata: {\"share\":0.5}\n\nevent: log\ndata: {\"line\":\"resuming\"}\n\n\
                      event: state\ndata: {\"id\":\"j\",\"state\":\"running\"}\n\n\
                      event: state\ndata: {\"id\":\"j\",\"state\":\"done\",\"files\":[\"a\"]}\n\nevent: log\ndata: {}\n";
        let mut heard = Vec::new();
        let mut listen = |event: Event<'_>| {
            heard.push(match event {
                Event::Progress(text) => format!("progress {text}"),
                Event::Log(line) => format!("log {line}"),
            });
            Ok(())
        };
        let ended = events(stream.as_bytes(), &mut listen).unwrap().unwrap();
        assert_eq!((ended.state.as_str(), ended.files), ("done", vec!["a".to_owned()]));
        assert_eq!(heard, ["progress {\"share\":0.5}", "log resuming"]);
        // A stream that breaks off, and a listener that has heard enough.
        assert!(events("event: log\n".as_bytes(), &mut |_| Ok(())).unwrap().is_none());
        let stopped = events(stream.as_bytes(), &mut |_| Err(Error::Stopped));
        assert!(matches!(stopped, Err(Error::Stopped)));
    }

    #[test]
    fn wrong_addresses_get_a_sentence() {
        let refused = |url: &str| match Client::new(url, None) {
            Ok(client) => {
                client.submit(&Request::Simulate(crate::serve::SimulateRequest { settings: Box::default() }))
            }
            Err(error) => Err(error),
        };
        let sentence = refused("localhost:8765").unwrap_err().to_string();
        assert!(sentence.contains("expected an address like http://127.0.0.1:8765"), "{sentence}");
        // A port that nobody listens on.
        let sentence = refused("http://127.0.0.1:1").unwrap_err().to_string();
        assert!(sentence.contains("http://127.0.0.1:1 does not answer"), "{sentence}");
    }
}
