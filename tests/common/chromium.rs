//! A small driver of Chromium over its DevTools protocol: as much as the tests need that open a page.
#![allow(dead_code)] // each test binary uses its own part

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

/// How long anything may take that is not the fit itself.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with its owner, so that a failing test leaves nothing behind.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What follows `mark` in the first line that has it. The rest of the stream is read too, or its writer would block.
pub fn after_mark(stream: impl Read + Send + 'static, mark: &'static str) -> String {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let (end, mut lines) = (Instant::now() + PATIENCE, Vec::new());
    while let Ok(line) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let Some((_, rest)) = line.split_once(mark) {
            return rest.trim().to_owned();
        }
        lines.push(line);
    }
    panic!("no line with `{mark}` within {PATIENCE:?}; there was: {}", lines.join("\n"));
}

/// A browser with one page.
pub struct Browser {
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    calls: u64,
    loads: u64,
    /// Errors on the console, uncaught exceptions and violations of the content-security policy.
    pub complaints: Vec<String>,
    // Dropped in this order: the process before the folder that it writes to.
    process: Process,
    _profile: tempfile::TempDir,
}

/// What every start has: no window, and no requests of the browser's own.
const ALWAYS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--remote-debugging-port=0",
];

impl Browser {
    /// A browser without a GPU.
    pub fn start() -> Browser {
        Browser::with(&["--disable-gpu"])
    }

    /// A browser with WebGPU, on a device in software.
    pub fn with_webgpu() -> Browser {
        Browser::with(&[
            "--enable-unsafe-webgpu",
            "--enable-features=Vulkan",
            "--use-webgpu-adapter=swiftshader",
        ])
    }

    fn with(arguments: &[&str]) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new("chromium")
            .args(ALWAYS)
            .args(arguments)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("this test needs the browser chromium (apt-get install chromium): {error}")
            });
        let errors = process.stderr.take().unwrap();
        let process = Process(process);
        let address = after_mark(errors, "DevTools listening on ");
        let host = address.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(address.as_str(), stream).unwrap();
        let mut browser = Browser {
            socket,
            session: None,
            calls: 0,
            loads: 0,
            complaints: vec![],
            process,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "DOM"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result; events that come in between are looked at for complaints.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let mut answer = self.receive(method);
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method} failed: {}", answer["error"]);
                return answer["result"].take();
            }
            self.listen(&answer);
        }
    }

    /// Calls a method that brings a new page, and waits until that is there.
    pub fn load(&mut self, method: &str, params: Value) {
        let before = self.loads;
        self.call(method, params);
        while self.loads == before {
            let event = self.receive(method);
            self.listen(&event);
        }
    }

    fn receive(&mut self, awaited: &str) -> Value {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return serde_json::from_str(text.as_str()).unwrap(),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    panic!("chromium did not answer {awaited} within {PATIENCE:?}")
                }
                Err(error) => panic!("chromium did not answer {awaited}: {error}"),
            }
        }
    }

    fn listen(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Page.loadEventFired") => {
                self.loads += 1;
                false
            }
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            // Failed requests and the content-security policy report here.
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if complaint {
            self.complaints.push(params.to_string());
        }
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, what: &str, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(&format!("Boolean({expression})")) != true {
            if Instant::now() > end {
                let page = self.evaluate("document.body.innerText");
                let page = page.as_str().unwrap_or_default();
                panic!(
                    "no {what} within {PATIENCE:?}; complaints: {:?}; the page says:\n{page}",
                    self.complaints
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Presses a key, as a keyboard would, on what has the focus.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "ArrowLeft" => (37, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            _ => panic!("no code is known for the key {key}"),
        };
        let down = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [down, "keyUp"] {
            let params =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    pub fn choose_file(&mut self, selector: &str, path: &Path) {
        let document = self.call("DOM.getDocument", json!({}));
        let query = json!({ "nodeId": document["root"]["nodeId"], "selector": selector });
        let node = self.call("DOM.querySelector", query);
        let files = json!({ "nodeId": node["nodeId"], "files": [path] });
        self.call("DOM.setFileInputFiles", files);
    }

    /// A picture of the whole page as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", params);
        from_base64(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    /// Asks the browser to close, with all of its processes; if it does not, it is ended.
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Browser.close" });
        if self.socket.send(Message::text(close.to_string())).is_ok() {
            let end = Instant::now() + Duration::from_secs(5);
            while matches!(self.process.0.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() * 3 / 4), 0u32, 0);
    for digit in text.bytes().filter_map(|c| DIGITS.iter().position(|&d| d == c)) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}
