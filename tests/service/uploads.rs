//! Uploads: what they would need is known before they are read, and what is told of them is bounded.

use crate::server::Server;
use skds::Matrix;
use skds::data::Dataset;
use std::io::Write;
use std::net::TcpStream;

/// The most memory that a service has had, in MiB.
#[cfg(target_os = "linux")]
fn peak(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() >> 10
}

/// A thousand variables, two thousand environments, everything a target.
fn all_targets(path: &std::path::Path, name_bytes: usize) -> Vec<u8> {
    let (d, environments) = (1000, 2000);
    let all = (0..environments).map(|_| Matrix::full(2, d, 0.0)).collect();
    let names = (0..d).map(|j| format!("{j:04}{}", "x".repeat(name_bytes - 4))).collect();
    let data = Dataset::from_environments(all).unwrap().with_names(names).unwrap();
    data.with_targets(Matrix::full(environments, d, true)).unwrap().write(path).unwrap();
    packed(path)
}

/// The same archive, packed.
fn packed(path: &std::path::Path) -> Vec<u8> {
    let mut from = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut to = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for place in 0..from.len() {
        let mut entry = from.by_index(place).unwrap();
        let name = entry.name().unwrap().into_owned();
        to.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::copy(&mut entry, &mut to).unwrap();
    }
    to.finish().unwrap().into_inner()
}

#[test]
fn a_small_file_does_not_need_gigabytes_to_describe() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("service"), &[]);
    let client = server.client();
    let bytes = all_targets(&folder.path().join("targets.npz"), 200);
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    let found = client.post("/v1/datasets?name=targets.npz", &bytes);
    let info = found.expect(201);
    // All names of all targets would be 400 megabytes.
    assert!(found.body.len() < 2_000_000, "{} bytes", found.body.len());
    let environments = info["environments"].as_array().unwrap();
    assert_eq!(environments.len(), 2000);
    assert!(environments.iter().all(|e| e["target_count"] == 1000));
    let id = info["id"].as_str().unwrap();
    assert!(client.get(&format!("/v1/datasets/{id}")).body.len() < 2_000_000);
    #[cfg(target_os = "linux")]
    assert!(peak(&server) < 500, "{} MiB", peak(&server));
    // Names that every answer would repeat are refused.
    let long = all_targets(&folder.path().join("long.npz"), 2000);
    let sentence = client.post("/v1/datasets?name=long.npz", &long).refused(422);
    assert!(sentence.contains("in bytes, is 2000, expected at most 200"), "{sentence}");
}

#[test]
fn what_a_table_would_need_is_known_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--max-memory", "16", "--max-variables", "50"];
    let server = Server::start(&folder.path().join("service"), &more);
    let client = server.client();
    let wide = format!("{}\n", (0..60).map(|j| format!("x{j}")).collect::<Vec<_>>().join(","));
    // Not even a table: the rows are not looked at.
    let sentence = client.post("/v1/datasets?name=wide.csv", format!("{wide}no numbers")).refused(422);
    assert!(sentence.contains("the number of variables is 60, expected at most 50"), "{sentence}");
    let rows = format!("a,b\n{}no numbers", "1,2\n".repeat(500_000));
    let sentence = client.post("/v1/datasets?name=rows.csv", rows).refused(422);
    assert!(sentence.contains("the memory that it needs is 23 MiB, expected at most 16 MiB"), "{sentence}");
    let environments = format!("a,b,env\n1,2,0\n1,2,{}\n", usize::MAX);
    let sentence = client.post("/v1/datasets?name=e.csv&targets=1%3Da", environments).refused(400);
    assert!(sentence.contains("has 2 rows and the environment 18446744073709551615"), "{sentence}");
    let environments = format!("a,env\n{}", (0..10_001).map(|e| format!("1,{e}\n")).collect::<String>());
    let sentence = client.post("/v1/datasets?name=e.csv&targets=1%3Da", environments).refused(422);
    assert!(sentence.contains("the number of environments is 10001, expected at most 10000"), "{sentence}");
    let model = vec![0; 8 << 20];
    let sentence = client.post("/v1/models", model).refused(422);
    assert!(sentence.contains("the memory that it needs is 24 MiB"), "{sentence}");
}

#[test]
fn uploads_without_a_length_respect_the_disk_and_share_it() {
    let folder = tempfile::tempdir().unwrap();
    // Two mebibytes, of which the database takes some.
    let server = Server::start(&folder.path().join("service"), &["--max-disk", "0.002"]);
    let begin = || {
        let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        stream
    };
    let head =
        "POST /v1/datasets?name=a.csv HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let send = |stream: &mut TcpStream, bytes: usize| {
        let part = "1,2\n".repeat(bytes / 4);
        stream.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes())
    };
    // Half of it, which stays on its way.
    let mut first = begin();
    first.write_all(head.as_bytes()).unwrap();
    send(&mut first, 1_000_000).unwrap();
    let uploads = folder.path().join("service/uploads");
    let start = std::time::Instant::now();
    let arrived = || {
        std::fs::read_dir(&uploads)
            .unwrap()
            .flatten()
            .filter_map(|e| Some(e.metadata().ok()?.len()))
            .sum::<u64>()
    };
    while arrived() < 1_000_000 {
        assert!(start.elapsed().as_secs() < 60, "{} bytes have arrived", arrived());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Another one beside it has no room for as much again.
    let mut second = begin();
    second.write_all(head.as_bytes()).unwrap();
    for _ in 0..12 {
        if send(&mut second, 100_000).is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    std::io::Read::read_exact(&mut second, &mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 507");
    // Alone, the rest of the disk is the first one's; not more than that.
    drop(second);
    for _ in 0..20 {
        if send(&mut first, 100_000).is_err() {
            break;
        }
    }
    std::io::Read::read_exact(&mut first, &mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 507");
    assert!(server.client().get("/healthz").status == 200);
}
