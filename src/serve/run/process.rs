//! A process for jobs, as the service sees it. It can end at any time.

use super::protocol::{Message, Order};
use crate::engine::Place;
use crate::stderr::say;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most bytes of a line from a process.
const LONGEST_LINE: u64 = 256 << 20;
/// The message of Rust's allocator before it aborts.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// The time that a process has to end by itself once nobody needs it.
const FAREWELL: Duration = Duration::from_secs(1);

/// A process that does jobs.
pub(in crate::serve) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    messages: Receiver<Message>,
    /// Whether it reported that it ran out of memory.
    out_of_memory: Arc<AtomicBool>,
    errors: Option<JoinHandle<()>>,
    /// Bytes of memory that a job may use.
    memory: Option<u64>,
}

/// What arrived from a process.
pub(in crate::serve) enum Heard {
    Message(Message),
    Nothing,
    /// It has ended.
    End,
}

/// How a process ended.
pub(in crate::serve) struct Death {
    /// Why, for clients.
    pub reason: String,
    /// Whether somebody asked it to end, so that the job is not the cause.
    pub asked: bool,
}

impl Process {
    /// Starts `program` (this one) in the folder of the service, for jobs that may use so many bytes of memory on a device.
    pub(super) fn start(
        program: &[OsString],
        folder: &Path,
        place: &Place,
        memory: u64,
    ) -> io::Result<Process> {
        let device = match place {
            Place::Cpu => "cpu".to_owned(),
            Place::Gpu(gpu) => gpu.index.to_string(),
        };
        let mut command = crate::program::command(program);
        command.args(["work", "--device", &device, "--memory", &memory.to_string()]).current_dir(folder);
        command.env_remove("SKDS_TOKEN").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal is meant for the service, which then stops its processes.
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            command.process_group(0);
            if program.len() == 1 {
                command.arg0("skds");
            }
        }
        let mut child = command.spawn()?;
        let (orders, lines) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(lines);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(read) if read > 0 => {}
                    _ => return,
                }
                // Anything but a message means that it is broken.
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
        Ok(Process { child, orders, messages, out_of_memory, errors: Some(errors), memory: None })
    }

    /// Whether it still runs, as far as that is known.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends an order. If the process is gone, [`receive`](Process::receive) notices.
    pub(super) fn send(&mut self, order: &Order) {
        let mut line = serde_json::to_vec(order).expect("orders serialise");
        line.push(b'\n');
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(&line).and_then(|()| orders.flush());
        }
    }

    /// Waits for a message.
    pub(super) fn receive(&mut self, within: Duration) -> Heard {
        match self.messages.recv_timeout(within) {
            Ok(Message::Ready { memory }) => {
                self.memory = memory;
                Heard::Nothing
            }
            Ok(message) => Heard::Message(message),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Ends the process, if it has not ended by itself, and returns how it ended.
    pub(super) fn end(mut self) -> Death {
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

    /// Closes the standard input of the process, so that it ends by itself, and kills it otherwise.
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
    pub(super) fn kill(&mut self) {
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
