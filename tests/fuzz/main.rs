//! Feeds mutated inputs to the library, in process. Each must be refused with an error or accepted and usable. Nothing may panic,
//! hang or take much memory.
//!
//! Every input follows from a seed, its kind and its number, so each can be reproduced:
//!
//! - `SKDS_FUZZ_SECONDS` (60): how long. `SKDS_FUZZ_SEED` (1): which inputs.
//! - `SKDS_FUZZ_INPUT=KIND:NUMBER`: this input alone. `SKDS_FUZZ_FILE=KIND:PATH`: what is in this file.
//!
//! If an input breaks something, the test fails and names the folder where it keeps the input.

mod bytes;
mod doors;
mod json;
mod kinds;
mod npz;
mod seeds;
mod tensors;
mod text;
mod uses;
mod watch;

use kinds::{House, Kind};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::{Duration, Instant};
use watch::{LONGEST, Watch};

/// The limit of the process's peak memory in bytes.
const MOST_MEMORY: u64 = 1 << 30;
/// The longest error in characters: an error does not repeat the whole input.
const LONGEST_SENTENCE: usize = 4000;
/// The number of failures after which the test stops.
const MOST_FAILURES: usize = 20;
/// The number of inputs between checks of the memory.
const LOOK_EVERY: u64 = 64;

#[derive(Clone, Copy, Default)]
struct Count {
    inputs: u64,
    accepted: u64,
    time: Duration,
}

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is '{text}', expected a number")),
        Err(_) => default,
    }
}

/// The kind and the rest of a variable like `npz:7`.
fn wanted(name: &str) -> Option<(Kind, String)> {
    let text = std::env::var(name).ok()?;
    let (kind, rest) = text.split_once(':').unwrap_or_else(|| panic!("{name} is '{text}', expected KIND:…"));
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
    Some((kind.unwrap_or_else(|| panic!("{name} is '{text}', expected a kind of input")), rest.into()))
}

/// The random numbers of one input.
fn generator(seed: u64, kind: Kind, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(((kind as u64) << 48) | number);
    rng
}

/// The most memory that this process has had, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

/// A place for files that come and go; in memory, if there is one.
fn place() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("skds-fuzz-").tempdir_in(folder).unwrap()
}

#[test]
fn seeds_are_accepted() {
    let folder = place();
    let house = House::new(folder.path());
    for kind in Kind::ALL {
        let seeds = house.seeds(kind);
        let refused: Vec<String> = seeds.iter().filter_map(|seed| house.enter(kind, seed).err()).collect();
        // Some are there to be refused, and to become good by a change.
        assert!(refused.len() * 2 <= seeds.len(), "{}: {refused:#?}", kind.name());
    }
}

#[test]
fn mutated_inputs_are_refused_or_usable() {
    let (seconds, seed) = (variable("SKDS_FUZZ_SECONDS", 60.0), variable("SKDS_FUZZ_SEED", 1));
    let folder = place();
    let house = House::new(folder.path());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let watch = Watch::new(&kept, LONGEST, |said| {
        println!("{said}");
        std::process::exit(1);
    });
    if let Some((kind, path)) = wanted("SKDS_FUZZ_FILE") {
        return println!("{:?}", house.enter(kind, &std::fs::read(path).unwrap()));
    }
    if let Some((kind, number)) = wanted("SKDS_FUZZ_INPUT") {
        let input = house.input(kind, &mut generator(seed, kind, number.parse().unwrap()));
        println!("{}", watch.keep(&format!("seed-{seed}-{}-{number}", kind.name()), &input).display());
        return println!("{:?}", house.enter(kind, &input));
    }
    // If the process is ended from outside, the inputs it was at are still there.
    println!("seed {seed}; inputs are tried in {}", folder.path().display());
    let start = Instant::now();
    let mut counts = [Count::default(); Kind::ALL.len()];
    let (mut all, mut failures) = (0, Vec::new());
    while start.elapsed().as_secs_f64() < seconds {
        // Every kind has the same share of the time.
        let kind = Kind::ALL.into_iter().min_by_key(|kind| counts[*kind as usize].time).unwrap();
        let count = &mut counts[kind as usize];
        let began = Instant::now();
        let input = house.input(kind, &mut generator(seed, kind, count.inputs));
        let name = format!("seed {seed}, {}, {}", kind.name(), count.inputs);
        let outcome = watch.over(name.clone(), &input, || house.enter(kind, &input));
        match outcome {
            Err(said) => failures.push(said),
            Ok(Ok(())) => count.accepted += 1,
            Ok(Err(sentence)) if sentence.is_empty() || sentence.len() > LONGEST_SENTENCE => {
                let path = watch.keep(&name, &input).display().to_string();
                failures.push(format!("{name}: a sentence of {} bytes: {path}", sentence.len()));
            }
            Ok(Err(_)) => {}
        }
        assert!(failures.len() < MOST_FAILURES, "{failures:#?}");
        count.inputs += 1;
        count.time += began.elapsed();
        all += 1;
        if all % LOOK_EVERY == 0
            && let Some(memory) = peak_memory().filter(|memory| *memory > MOST_MEMORY)
        {
            let path = watch.keep(&name, &input);
            panic!("{name} or one shortly before took {} MiB: {}", memory >> 20, path.display());
        }
    }
    println!("kind              inputs    accepted     refused    inputs/s");
    for kind in Kind::ALL {
        let Count { inputs, accepted, time } = counts[kind as usize];
        let rate = inputs as f64 / time.as_secs_f64();
        println!("{:<12} {inputs:>11} {accepted:>11} {:>11} {rate:>11.0}", kind.name(), inputs - accepted);
        // The mutator neither leaves everything as it was nor ruins all of it.
        assert!(
            inputs < 1000 || (accepted > 0 && accepted < inputs),
            "{}: {accepted} of {inputs}",
            kind.name()
        );
    }
    let memory = peak_memory().map_or("unknown".into(), |bytes| format!("{} MiB", bytes >> 20));
    let rate = all as f64 / start.elapsed().as_secs_f64();
    println!(
        "{all} inputs in {:.0} s, {rate:.0} per second; most memory {memory}",
        start.elapsed().as_secs_f64()
    );
    assert!(failures.is_empty(), "{failures:#?}");
}
