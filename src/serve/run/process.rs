//! A process for jobs, as the service sees it: started when it is needed, spoken to in lines, mortal.

use crate::engine::Place;
use crate::serve::domain::message::{Order, Said};
use crate::stderr::say;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No line of a process is longer.
const LONGEST_LINE: u64 = 256 << 20;
/// As Rust's allocator says it before it aborts.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// Time that a process has to end by itself once nobody needs it.
const FAREWELL: Duration = Duration::from_secs(1);

/// A process that does jobs.
pub(in crate::serve) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    said: Receiver<Said>,
    /// Whether it said that there was no memory left.
    out_of_memory: Arc<AtomicBool>,
    errors: Option<JoinHandle<()>>,
    /// What it may use for a job.
    memory: Option<u64>,
}

/// What was heard of a process.
pub(in crate::serve) enum Heard {
    Said(Said),
    Nothing,
    /// It has ended.
    End,
}

/// How a process ended.
pub(in crate::serve) struct Death {
    /// Why, for clients.
    pub reason: String,
    /// Whether someone asked it to end, so that its job has nothing to do with it.
    pub asked: bool,
}

impl Process {
    /// Starts `program` (this one) in the service's folder, for jobs that may use so many bytes on a device.
    pub fn start(program: &Path, folder: &Path, place: &Place, memory: u64) -> io::Result<Process> {
        let device = match place {
            Place::Cpu => "cpu".to_owned(),
            Place::Gpu(gpu) => gpu.index.to_string(),
        };
        let mut command = Command::new(program);
        command.args(["work", "--device", &device, "--memory", &memory.to_string()]).current_dir(folder);
        command.env_remove("SKDS_TOKEN").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal is for the service, which tells its processes to stop.
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            command.process_group(0).arg0("skds");
        }
        let mut child = command.spawn()?;
        let (orders, lines) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(lines);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(read) if read > 0 => {}
                    _ => return,
                }
                // Whatever else it says, it is no process of jobs any more.
                let Ok(message) = serde_json::from_slice(&line) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let out_of_memory = Arc::new(AtomicBool::new(false));
        let (no_memory, errors) = (out_of_memory.clone(), child.stderr.take().expect("it is piped"));
        let errors = std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                if line.starts_with(OUT_OF_MEMORY) {
                    no_memory.store(true, Ordering::Relaxed);
                }
                say!("{line}");
            }
        });
        Ok(Process { child, orders, said, out_of_memory, errors: Some(errors), memory: None })
    }

    /// Whether it is there, as far as that is known.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells it something. If it is gone, that is heard.
    pub fn tell(&mut self, order: &Order) {
        let mut line = serde_json::to_vec(order).expect("orders serialise");
        line.push(b'\n');
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(&line).and_then(|()| orders.flush());
        }
    }

    /// What it says, if it does so in time.
    pub fn hear(&mut self, within: Duration) -> Heard {
        match self.said.recv_timeout(within) {
            Ok(Said::Ready { memory }) => {
                self.memory = memory;
                Heard::Nothing
            }
            Ok(said) => Heard::Said(said),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Ends it, if it has not ended by itself, and tells how it did.
    pub fn end(mut self) -> Death {
        let status = self.close();
        if let Some(errors) = self.errors.take() {
            let _ = errors.join();
        }
        match (self.out_of_memory.load(Ordering::Relaxed), self.memory) {
            (true, Some(memory)) => Death {
                reason: format!("the job ran out of memory: it needed more than {} MiB", memory >> 20),
                asked: false,
            },
            (true, None) => Death { reason: "the job ran out of memory".into(), asked: false },
            (false, _) => explain(status),
        }
    }

    /// Without orders a process ends by itself; if not, it is killed.
    fn close(&mut self) -> Option<ExitStatus> {
        self.orders = None;
        let start = Instant::now();
        while start.elapsed() < FAREWELL {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(status) => return status,
                Err(_) => break,
            }
        }
        self.kill();
        self.child.wait().ok()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.close();
    }
}

fn explain(status: Option<ExitStatus>) -> Death {
    let Some(status) = status else {
        return Death { reason: "the job's process was lost".into(), asked: false };
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let (name, asked) = match signal {
            1 => (" (hangup)", true),
            2 => (" (interrupt)", true),
            4 => (" (illegal instruction)", false),
            6 => (" (abort)", false),
            7 => (" (bus error)", false),
            8 => (" (arithmetic)", false),
            9 => (" (kill, as the system does when memory runs out)", false),
            11 => (" (segmentation fault)", false),
            15 => (" (terminate)", true),
            _ => ("", false),
        };
        return Death { reason: format!("the job's process was ended by signal {signal}{name}"), asked };
    }
    let code = status.code().unwrap_or(-1);
    Death { reason: format!("the job's process ended with exit code {code}"), asked: false }
}
