//! Long work runs in processes of its own: what ends one of them ends a job at most.

use crate::server::{Client, Server};
use crate::small_data;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A job that takes longer than anyone waits here.
fn long_fit(data: &str) -> Value {
    json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 40_000_000, "batch": 64 } })
}

fn short_fit(data: &str) -> Value {
    json!({ "kind": "fit", "dataset": data, "settings": { "bandwidth": 3, "lambda": 0.1 } })
}

/// The field of a process's status.
fn status(pid: u32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn is_alive(pid: u32) -> bool {
    status(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// The processes that a service does its jobs in.
fn processes(server: &Server) -> Vec<u32> {
    let parent = server.child.id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.retain(|pid| status(*pid, "PPid").is_some_and(|found| found == parent) && is_alive(*pid));
    pids.sort();
    pids
}

/// Seconds of processor time, in ticks.
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let field = |k: usize| fields.get(k).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    field(11) + field(12)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(name: &str, pid: u32) {
    let line = format!("kill -{name} {pid}");
    assert!(Command::new("bash").args(["-c", &line]).status().unwrap().success());
}

/// The process of the one job that is running: the one that takes processor time.
fn busy(server: &Server) -> u32 {
    let mut found = None;
    until("one process is at work", || {
        let before: Vec<(u32, u64)> = processes(server).into_iter().map(|pid| (pid, ticks(pid))).collect();
        std::thread::sleep(Duration::from_millis(200));
        found = before.into_iter().find(|(pid, ticks_before)| ticks(*pid) > ticks_before + 5);
        found.is_some()
    });
    found.unwrap().0
}

fn start(folder: &Path, more: &[&str]) -> (Server, Client, String) {
    let (_, bytes) = small_data(folder);
    let server = Server::start(&folder.join("service"), more);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    (server, client, data)
}

#[test]
fn a_job_that_ends_its_process_twice_has_failed_and_the_service_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client, data) = start(folder.path(), &[]);
    until("processes are there before there is a job", || processes(&server).len() == 2);
    let id = client.submit(&long_fit(&data));
    client.wait_for(&id, &["running"]);
    let first = busy(&server);
    signal("ABRT", first);
    until("the process has ended", || !is_alive(first));
    // Tried once more, in another process.
    let second = busy(&server);
    assert_ne!(first, second);
    let now = client.get(&format!("/v1/jobs/{id}")).expect(200);
    assert_eq!(now["state"], "running", "{now}");
    signal("ILL", second);
    let job = client.wait_for(&id, &["failed", "done", "cancelled"]);
    assert_eq!(job["state"], "failed", "{job}");
    let error = job["error"].as_str().unwrap();
    assert!(error.contains("ended its process twice") && error.contains("signal 4"), "{error}");
    // Nobody else noticed.
    assert_eq!(client.get("/healthz").status, 200);
    assert_eq!(client.run(&short_fit(&data))["state"], "done");
}

#[test]
fn deaths_are_counted_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client, data) = start(folder.path(), &[]);
    let id = client.submit(&long_fit(&data));
    let first = busy(&server);
    signal("KILL", first);
    // Counted before it is tried again.
    let second = busy(&server);
    assert_ne!(first, second);
    server.kill();
    until("the process ends with its service", || !is_alive(second));
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    signal("KILL", busy(&server));
    let job = client.wait_for(&id, &["failed", "done", "cancelled"]);
    assert_eq!(job["state"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains("twice"), "{job}");
    // And not a third time.
    server.kill();
    let server = Server::start(&folder.path().join("service"), &[]);
    assert_eq!(server.client().get(&format!("/v1/jobs/{id}")).expect(200)["state"], "failed");
}

#[test]
fn a_polite_end_of_its_process_is_not_the_jobs_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client, data) = start(folder.path(), &[]);
    let request = json!({ "kind": "fit", "dataset": data,
                          "settings": { "solver": "adam", "steps": 60_000, "batch": 64 } });
    let expected = client.run(&request)["result"]["model"].clone();
    let id = client.submit(&request);
    client.wait_for(&id, &["running"]);
    let folder = folder.path().join("service/jobs").join(&id);
    until("there is a checkpoint", || has_checkpoint(&folder));
    signal("TERM", busy(&server));
    let job = client.wait_for(&id, &["failed", "done", "cancelled"]);
    assert_eq!(job["state"], "done", "{job}");
    // It went on from its checkpoint, to the same bytes.
    assert_eq!(job["result"]["model"], expected);
}

fn has_checkpoint(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.contains("checkpoint") && !name.starts_with('.')
    })
}

#[test]
fn a_process_that_does_not_listen_is_killed_when_its_job_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client, data) = start(folder.path(), &[]);
    let id = client.submit(&long_fit(&data));
    let process = busy(&server);
    signal("STOP", process);
    client.post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
    let job = client.wait_for(&id, &["failed", "done", "cancelled"]);
    assert_eq!(job["state"], "cancelled", "{job}");
    assert!(!is_alive(process));
    assert_eq!(client.run(&short_fit(&data))["state"], "done");
}

#[test]
fn what_does_not_fit_into_its_memory_fails_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    // As if the estimate had been wrong: processes have less memory than the service may promise.
    let server = Server::start_in("ulimit -d 500000; exec \"$@\"", "cpu", &place, &[]);
    let client = server.client();
    let job = client
        .run(&json!({ "kind": "simulate", "settings": { "system": "scm", "dim": 100, "rows": 50_000 } }));
    assert_eq!(job["state"], "failed", "{job}");
    let error = job["error"].as_str().unwrap();
    assert!(error.contains("ended its process twice: the job ran out of memory"), "{error}");
    let small = json!({ "kind": "simulate", "settings": { "system": "scm", "dim": 20, "rows": 50 } });
    assert_eq!(client.run(&small)["state"], "done");
}

/// The process itself, without a service: told to simulate more than it may hold.
#[test]
fn the_operating_system_enforces_the_limit_of_memory() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let request = json!({ "kind": "simulate", "settings": { "system": "scm", "dim": 100, "rows": 200_000 } });
    let order = json!({ "Do": { "request": request, "folder": "job", "dataset": null, "model": null } });
    for (memory, enough) in [(1u64 << 20, false), (8 << 30, true)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_skds"))
            .args(["work", "--device", "cpu", "--memory", &memory.to_string()])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let limit = || {
            let text = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
            let line = text.lines().find(|line| line.starts_with("Max data size")).unwrap().to_owned();
            line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap_or(u64::MAX)
        };
        until("the process has confined itself", || (memory..memory + (16 << 30)).contains(&limit()));
        if enough {
            // Enough for a small one: it is told to end by the end of its orders.
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
            continue;
        }
        let mut orders = child.stdin.take().unwrap();
        writeln!(orders, "{order}").unwrap();
        let output = child.wait_with_output().unwrap();
        drop(orders);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && words.contains("memory allocation of"),
            "{:?} {words}",
            output.status
        );
    }
}
