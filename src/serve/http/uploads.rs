//! Receives bodies. Files are streamed to the disk under a temporary name and hashed on the way.

use super::Answer;
use super::error::ApiError;
use crate::serve::domain::limits::Limits;
use crate::serve::run::intake::Upload;
use crate::serve::run::service::Service;
use crate::serve::run::upload_budget::DiskRoom;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::io::AsyncWriteExt;

/// The bytes of a too large body that are read before the refusal. A client that is still sending would not see the refusal.
const DRAINED: u64 = 64 << 20;

/// Reads a body that must arrive at a certain pace.
struct BodyReader {
    stream: BodyDataStream,
    start: Instant,
    bytes: u64,
    limits: Limits,
}

impl BodyReader {
    fn new(body: Body, limits: Limits) -> Self {
        BodyReader { stream: body.into_data_stream(), start: Instant::now(), bytes: 0, limits }
    }

    /// The next part; none at the end.
    async fn next(&mut self) -> Answer<Option<Bytes>> {
        let Limits { patience, pace, .. } = self.limits;
        let part = tokio::time::timeout(patience, self.stream.next()).await;
        let part = part.map_err(|_| {
            ApiError::Slow(format!("no part of the body arrived for {} s", patience.as_secs_f64()))
        })?;
        let Some(part) = part else { return Ok(None) };
        let part = part.map_err(|_| ApiError::invalid("the request ended early"))?;
        self.bytes += part.len() as u64;
        let expected = self.start.elapsed().saturating_sub(patience).as_secs_f64() * pace as f64;
        if (self.bytes as f64) < expected {
            let seconds = self.start.elapsed().as_secs_f64();
            return Err(ApiError::Slow(format!("the body has {} bytes after {seconds:.0} s", self.bytes)));
        }
        Ok(Some(part))
    }

    /// Refuses a body that is too large.
    async fn refuse(mut self, most: u64) -> ApiError {
        let end = self.bytes.max(most) + DRAINED;
        while let Ok(Some(_)) = self.next().await {
            if self.bytes > end {
                break;
            }
        }
        ApiError::TooLarge { most }
    }
}

/// Reads a small body to its end.
pub(super) async fn collect(body: Body, limits: Limits) -> Answer<Vec<u8>> {
    let most = limits.body_bytes;
    let mut reader = BodyReader::new(body, limits);
    let mut all = Vec::new();
    while let Some(part) = reader.next().await? {
        all.extend_from_slice(&part);
        if reader.bytes > most {
            return Err(reader.refuse(most).await);
        }
    }
    Ok(all)
}

/// Receives a file of at most the limit, as long as there is room on the disk for all uploads.
pub(super) async fn receive(
    service: &Arc<Service>,
    headers: &HeaderMap,
    ending: &str,
    body: Body,
) -> Answer<Upload> {
    let most = service.limits.upload_bytes;
    let announced: Option<u64> =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut reader = BodyReader::new(body, service.limits);
    if announced.is_some_and(|found| found > most) {
        return Err(reader.refuse(most).await);
    }
    // The announced length is taken at once, the rest as it arrives.
    let mut room = disk_room(service).await?;
    room.take(announced.unwrap_or(0))?;
    let mut builder = tempfile::Builder::new();
    let temporary = builder.suffix(ending).tempfile_in(service.files.uploads())?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut hash = Sha256::new();
    while let Some(part) = reader.next().await? {
        if reader.bytes > most {
            return Err(reader.refuse(most).await);
        }
        room.take(reader.bytes.saturating_sub(room.taken()))?;
        hash.update(&part);
        file.write_all(&part).await?;
    }
    let bytes = reader.bytes;
    if announced.is_some_and(|announced| announced != bytes) {
        return Err(ApiError::invalid("the upload ended early"));
    }
    file.flush().await?;
    file.sync_all().await?;
    service.metrics.upload_bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(Upload { path, bytes, hash, _room: room })
}

/// Room on the disk for an upload, if the operator limits it. Counting the files takes a while, so another thread does it.
async fn disk_room(service: &Arc<Service>) -> Answer<DiskRoom> {
    let Some(most) = service.max_disk else { return Ok(service.upload_budget.disk(None)) };
    let counting = service.clone();
    let kept = tokio::task::spawn_blocking(move || {
        counting.files.bytes().saturating_sub(counting.files.bytes_of_uploads())
    });
    let kept = kept.await.map_err(|_| ApiError::internal())?;
    Ok(service.upload_budget.disk(Some(most.saturating_sub(kept))))
}
