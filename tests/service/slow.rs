//! Clients that take their time: none of them keeps others, or the end of the service, waiting.

use crate::server::Server;
use crate::small_data;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Whatever comes until the service closes the connection, which it has to within a minute.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection is still open: {error}"),
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Waits for the end of the service.
fn end_of(mut server: Server, within: Duration) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            return status.code();
        }
        assert!(start.elapsed() < within, "the service has not ended within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn heads_bodies_and_idle_connections_have_a_limit_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--patience", "0.5"]);
    let mut silent = connect(&server);
    let mut head = connect(&server);
    head.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a: ").unwrap();
    let mut idle = connect(&server);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut body = connect(&server);
    body.write_all(b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{").unwrap();
    let mut upload = connect(&server);
    let start =
        "POST /v1/datasets?name=a.csv HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    upload.write_all(start.as_bytes()).unwrap();
    upload.write_all(b"4\r\na,b\n\r\n").unwrap();
    assert!(!rest(&mut silent).contains("200"));
    assert!(!rest(&mut head).contains("200"));
    assert!(rest(&mut idle).starts_with("HTTP/1.1 200"));
    for stream in [&mut body, &mut upload] {
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(
            answer.contains("no part of the body arrived for 0.5 s, expected it to arrive faster"),
            "{answer}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path().join("service/uploads")).unwrap().count(), 0);
}

#[test]
fn a_body_that_trickles_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--patience", "1"]);
    let mut stream = connect(&server);
    let start = "POST /v1/datasets?name=a.csv HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(start.as_bytes()).unwrap();
    // A byte every tenth of a second is never silent for long; it would take a day.
    let began = Instant::now();
    while stream.write_all(b"1").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "the upload goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_secs(1));
}

#[test]
fn a_client_that_does_not_read_its_answers_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--patience", "0.5"]);
    let mut stream = connect(&server);
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let began = Instant::now();
    // Answers fill what the socket holds, then nothing moves: until the service closes it, and writing fails.
    let error = loop {
        if let Err(error) = stream.write_all(request) {
            break error;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the connection is still open");
    };
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    assert!(matches!(error.kind(), BrokenPipe | ConnectionReset), "{error}");
}

#[test]
fn more_slow_sockets_than_there_are_handles_do_not_silence_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("service");
    let server = Server::start_in("ulimit -n 512; exec \"$@\"", "cpu", &place, &[]);
    let mut sockets = Vec::new();
    for _ in 0..600 {
        let mut socket = connect(&server);
        // A service that has let it go may have closed it already.
        let _ = socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ");
        sockets.push(socket);
    }
    // Long before their time is over.
    let client = server.client();
    for _ in 0..20 {
        client.get("/healthz").expect(200);
    }
    let csv = format!("a,b\n{}", "1,2\n2,1\n".repeat(100));
    client.upload("small.csv", csv.as_bytes());
}

#[test]
fn those_who_are_being_answered_stay_when_there_is_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--max-connections", "2"]);
    let data = server.client().upload("train.npz", &bytes);
    let fit =
        json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 40_000_000 } });
    let id = server.client().submit(&fit);
    let listen = format!("GET /v1/jobs/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let answered = |_| {
        let mut listener = connect(&server);
        listener.write_all(listen.as_bytes()).unwrap();
        let mut start = [0; 12];
        listener.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        listener
    };
    let mut listeners: Vec<TcpStream> = (0..2).map(answered).collect();
    // The connections that the job was sent by may still have to go.
    let start = Instant::now();
    loop {
        let mut third = connect(&server);
        third.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = [0; 12];
        if third.read_exact(&mut answer).is_ok() {
            assert_eq!(&answer, b"HTTP/1.1 503");
            assert!(rest(&mut third).contains("too many connections"));
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "there is room for a third");
    }
    // One leaves, another comes.
    drop(listeners.pop());
    let start = Instant::now();
    while !server.client().try_get("/healthz").is_ok_and(|answer| answer.status == 200) {
        assert!(start.elapsed() < Duration::from_secs(60), "there is no room again");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.client().post(&format!("/v1/jobs/{id}/cancel"), "").expect(200);
}

#[test]
fn stalled_connections_and_a_running_job_do_not_keep_the_service_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small_data(folder.path());
    let server = Server::start(&folder.path().join("service"), &["--shutdown", "2"]);
    let client = server.client();
    let data = client.upload("train.npz", &bytes);
    let fit =
        json!({ "kind": "fit", "dataset": data, "settings": { "solver": "adam", "steps": 40_000_000 } });
    let id = client.submit(&fit);
    client.wait_for(&id, &["running"]);
    let mut upload = connect(&server);
    let start =
        "POST /v1/datasets?name=a.csv HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\na,b\n";
    upload.write_all(start.as_bytes()).unwrap();
    let mut head = connect(&server);
    head.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
    let mut listener = connect(&server);
    let listen = format!("GET /v1/jobs/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    listener.write_all(listen.as_bytes()).unwrap();
    let mut some = [0; 12];
    listener.read_exact(&mut some).unwrap();
    server.signal("TERM");
    // Two seconds, on a machine that may be busy; the upload alone could go on for thirty.
    assert_eq!(end_of(server, Duration::from_secs(12)), Some(0));
    drop((upload, head, listener));
}

#[test]
fn a_second_signal_ends_the_service_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &["--shutdown", "3600"]);
    let mut upload = connect(&server);
    let start =
        "POST /v1/datasets?name=a.csv HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\na,b\n";
    upload.write_all(start.as_bytes()).unwrap();
    let uploads = folder.path().join("service/uploads");
    let began = Instant::now();
    while std::fs::read_dir(&uploads).unwrap().count() == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the upload does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal("TERM");
    // It has heard the first one when nobody is let in any more.
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    while TcpStream::connect(&address).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "the service still listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal("TERM");
    // The upload has thirty seconds.
    assert_eq!(end_of(server, Duration::from_secs(20)), Some(130));
}
