//! Numbers for Prometheus.

use crate::serve::domain::problem::Problem;
use crate::serve::domain::request::Request;
use crate::serve::run::service::Service;
use crate::serve::store::database::{JobState, counts};
use rusqlite::Connection;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper ends of the buckets of times, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0, 600.0];
const KINDS: [&str; 5] = ["fit", "sample", "evaluate", "loss", "simulate"];

/// What is counted while the service runs.
#[derive(Default)]
pub struct Metrics {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub upload_bytes: AtomicU64,
    evaluations: AtomicU64,
    evaluated_losses: AtomicU64,
    failed: AtomicU64,
    times: Mutex<[Times; KINDS.len()]>,
}

#[derive(Clone, Copy, Default)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// A set of dispatches evaluates so many losses; none of them for the first time if it is another try.
    pub fn evaluated(&self, losses: usize) {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        self.evaluated_losses.fetch_add(losses as u64, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }

    pub fn ended(&self, state: JobState) {
        if state == JobState::Failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A job took so many seconds from its submission.
    pub fn finished(&self, request: &Request, seconds: f64) {
        let kind = KINDS.iter().position(|kind| *kind == request.kind()).unwrap_or(0);
        let mut times = self.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Times { buckets, count, sum } = &mut times[kind];
        for (bucket, end) in buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
        (*count, *sum) = (*count + 1, *sum + seconds);
    }
}

impl Service {
    /// In Prometheus' text format.
    pub(in crate::serve) fn metrics_text(&self, db: &Connection) -> Result<String, Problem> {
        let mut text = String::new();
        let mut line = |head: &str, kind: &str, rows: &[(String, f64)]| {
            let name = head.split_once(' ').map_or(head, |(name, _)| name);
            let _ = writeln!(text, "# HELP {head}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        let count = |counter: &AtomicU64| one(counter.load(Ordering::Relaxed) as f64);
        let Metrics { requests, refused, upload_bytes, evaluations, evaluated_losses, failed, .. } =
            &self.metrics;
        line("skds_requests_total HTTP requests", "counter", &count(requests));
        line("skds_refused_total HTTP requests that were refused", "counter", &count(refused));
        line("skds_upload_bytes_total bytes of uploads", "counter", &count(upload_bytes));
        line("skds_evaluations_total sets of dispatches for loss jobs", "counter", &count(evaluations));
        line("skds_evaluated_losses_total loss jobs in them", "counter", &count(evaluated_losses));
        line("skds_failed_jobs_total jobs that failed since the start", "counter", &count(failed));
        line("skds_queued_jobs jobs that wait", "gauge", &one(self.queue.len() as f64));
        line("skds_disk_bytes bytes of the service's folder", "gauge", &one(self.files.bytes() as f64));
        let jobs: Vec<(String, f64)> = (counts(db)?.into_iter())
            .map(|(kind, state, count)| (format!("{{kind=\"{kind}\",state=\"{state}\"}}"), count as f64))
            .collect();
        line("skds_jobs jobs on record", "gauge", &jobs);
        let times = *self.metrics.times.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = writeln!(
            text,
            "# HELP skds_job_seconds seconds from submission to result\n# TYPE skds_job_seconds histogram"
        );
        for (kind, Times { buckets, count, sum }) in KINDS.iter().zip(times) {
            for (bucket, end) in buckets.iter().zip(BUCKETS) {
                let _ = writeln!(text, "skds_job_seconds_bucket{{kind=\"{kind}\",le=\"{end}\"}} {bucket}");
            }
            let _ = writeln!(text, "skds_job_seconds_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "skds_job_seconds_sum{{kind=\"{kind}\"}} {sum}");
            let _ = writeln!(text, "skds_job_seconds_count{{kind=\"{kind}\"}} {count}");
        }
        Ok(text)
    }
}
