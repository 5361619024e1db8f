//! The numbers of the service in Prometheus' text format.

use crate::serve::domain::error::ServiceError;
use crate::serve::run::metrics::{BUCKETS, Times};
use crate::serve::run::service::Service;
use crate::serve::store::database::Reader;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers as text.
pub(super) fn text(service: &Service, reader: &Reader<'_>) -> Result<String, ServiceError> {
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
    let counters = &service.metrics;
    line("skds_requests_total HTTP requests", "counter", &count(&counters.requests));
    line("skds_refused_total Refused HTTP requests", "counter", &count(&counters.refused));
    line("skds_upload_bytes_total Bytes of uploads", "counter", &count(&counters.upload_bytes));
    line(
        "skds_evaluations_total Evaluations of losses, each for one or more jobs",
        "counter",
        &count(&counters.evaluations),
    );
    line(
        "skds_evaluated_losses_total Loss jobs that these evaluations answered",
        "counter",
        &count(&counters.evaluated_losses),
    );
    line("skds_failed_jobs_total Jobs that failed since the start", "counter", &count(&counters.failed));
    line("skds_queued_jobs Jobs that wait", "gauge", &one(service.queue.len() as f64));
    line("skds_disk_bytes Bytes of the folder of the service", "gauge", &one(service.files.bytes() as f64));
    let jobs: Vec<(String, f64)> = (reader.job_counts()?.into_iter())
        .map(|(kind, state, count)| (format!("{{kind=\"{kind}\",state=\"{state}\"}}"), count as f64))
        .collect();
    line("skds_jobs Jobs on record", "gauge", &jobs);
    let _ = writeln!(
        text,
        "# HELP skds_job_seconds Seconds from submission to result\n# TYPE skds_job_seconds histogram"
    );
    for (kind, Times { buckets, count, sum }) in counters.times() {
        for (bucket, end) in buckets.iter().zip(BUCKETS) {
            let _ = writeln!(text, "skds_job_seconds_bucket{{kind=\"{kind}\",le=\"{end}\"}} {bucket}");
        }
        let _ = writeln!(text, "skds_job_seconds_bucket{{kind=\"{kind}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "skds_job_seconds_sum{{kind=\"{kind}\"}} {sum}");
        let _ = writeln!(text, "skds_job_seconds_count{{kind=\"{kind}\"}} {count}");
    }
    Ok(text)
}
