//! A real service in a process of its own, and a client for it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    pub child: Child,
    pub url: String,
}

impl Server {
    /// Starts a service on a free port with its data in `folder`.
    pub fn start(folder: &Path, more: &[&str]) -> Server {
        Server::start_in("exec \"$@\"", "cpu", folder, more)
    }

    /// The same on a device, by a shell script that runs its arguments.
    pub fn start_in(script: &str, device: &str, folder: &Path, more: &[&str]) -> Server {
        let mut child = Command::new("bash")
            .args(["-c", script, "bash", env!("CARGO_BIN_EXE_skds")])
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--device",
                device,
                "--data",
                folder.to_str().unwrap(),
            ])
            .args(more)
            .env_remove("SKDS_TOKEN")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Server { child, url }
    }

    /// Sends a signal, by the shell's own kill: there may be no program of that name.
    pub fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("bash").args(["-c", &line]).status().unwrap().success());
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url, None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a service says that does not start.
pub fn refused_to_start(folder: &Path, more: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(["serve", "--listen", "127.0.0.1:0", "--device", "cpu", "--data", folder.to_str().unwrap()])
        .args(more)
        .env_remove("SKDS_TOKEN")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that starts after all would go on for ever.
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "the service has started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for something.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that a job began and ended while another one was running, by the times on record: nothing depends on when a test looks.
pub fn assert_passed(short: &Value, long: &Value) {
    let time = |job: &Value, name: &str| job[name].as_f64().unwrap_or_else(|| panic!("no {name}: {job}"));
    assert!(time(long, "started") <= time(short, "started"), "the long job began later: {short} {long}");
    assert!(time(short, "finished") < time(long, "finished"), "the long job ended first: {short} {long}");
}

#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    token: Option<String>,
}

/// Status, the Retry-After header, and the body.
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    /// The JSON of an answer with this status.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The sentence of a refusal with this status.
    pub fn refused(&self, status: u16) -> String {
        self.expect(status)["error"].as_str().expect("refusals have a sentence").to_owned()
    }
}

impl Client {
    pub fn new(url: &str, token: Option<&str>) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        Client { agent: config.into(), url: url.into(), token: token.map(str::to_owned) }
    }

    fn answer(
        &self,
        found: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Answer, ureq::Error> {
        let mut response = found?;
        let retry_after = response.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned());
        let mut body = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut body)?;
        Ok(Answer { status: response.status().as_u16(), retry_after, body })
    }

    fn bearer(&self) -> String {
        self.token.as_ref().map_or(String::new(), |token| format!("Bearer {token}"))
    }

    pub fn try_get(&self, path: &str) -> Result<Answer, ureq::Error> {
        let request = self.agent.get(format!("{}{path}", self.url)).header("authorization", self.bearer());
        self.answer(request.call())
    }

    pub fn try_post(&self, path: &str, body: &[u8]) -> Result<Answer, ureq::Error> {
        let request = self.agent.post(format!("{}{path}", self.url)).header("authorization", self.bearer());
        self.answer(request.send(body))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap()
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.try_post(path, body.as_ref()).unwrap()
    }

    /// Uploads a dataset and gives its name.
    pub fn upload(&self, name: &str, bytes: &[u8]) -> String {
        let answer = self.post(&format!("/v1/datasets?name={name}"), bytes);
        assert!(matches!(answer.status, 200 | 201), "{}", String::from_utf8_lossy(&answer.body));
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub fn submit(&self, request: &Value) -> String {
        let answer = self.post("/v1/jobs", request.to_string());
        answer.expect(202)["id"].as_str().unwrap().to_owned()
    }

    /// Has a job done within a minute.
    pub fn run(&self, request: &Value) -> Value {
        let job = self.post("/v1/jobs?wait=60", request.to_string()).expect(200);
        assert!(job["finished"].is_number(), "{job}");
        job
    }

    /// The job once it is in one of the states.
    pub fn wait_for(&self, id: &str, states: &[&str]) -> Value {
        let start = Instant::now();
        loop {
            let job = self.get(&format!("/v1/jobs/{id}")).expect(200);
            if states.contains(&job["state"].as_str().unwrap()) {
                return job;
            }
            assert!(start.elapsed() < Duration::from_secs(90), "{job} is not {states:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
