//! Receives files: streamed to the disk under a temporary name, hashed on the way.

use super::Answer;
use crate::serve::domain::id::ContentId;
use crate::serve::domain::limits::Limits;
use crate::serve::domain::problem::Problem;
use crate::serve::run::arriving::DiskRoom;
use crate::serve::run::service::Service;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;

/// A file that has arrived whole; it is gone when this is dropped, unless it was given a place.
pub(super) struct Received {
    pub path: TempPath,
    pub bytes: u64,
    pub hash: Sha256,
    _room: DiskRoom,
}

impl Received {
    /// Its hash; with what else tells it from others, the hash of both.
    pub fn id(&self, more: Option<&str>) -> ContentId {
        let own = ContentId::of(self.hash.clone());
        match more {
            None => own,
            // A hash has one length: no two such texts are alike.
            Some(more) => ContentId::of(Sha256::new_with_prefix(format!("{}{more}", own.as_str()))),
        }
    }
}

/// Of a body that is too large, so much is read before the refusal: a client that is still sending would not see it.
const DRAINED: u64 = 64 << 20;

/// A body that arrives, at a pace that is bounded from below.
struct Arriving {
    stream: BodyDataStream,
    start: Instant,
    bytes: u64,
    limits: Limits,
}

impl Arriving {
    fn new(body: Body, limits: Limits) -> Self {
        Arriving { stream: body.into_data_stream(), start: Instant::now(), bytes: 0, limits }
    }

    /// The next part; none at the end.
    async fn next(&mut self) -> Answer<Option<Bytes>> {
        let Limits { patience, pace, .. } = self.limits;
        let part = tokio::time::timeout(patience, self.stream.next()).await;
        let part =
            part.map_err(|_| slow(format!("no part of the body has come for {} s", patience.as_secs_f64())))?;
        let Some(part) = part else { return Ok(None) };
        let part = part.map_err(|_| Problem::bad("the request broke off"))?;
        self.bytes += part.len() as u64;
        let expected = self.start.elapsed().saturating_sub(patience).as_secs_f64() * pace as f64;
        if (self.bytes as f64) < expected {
            let seconds = self.start.elapsed().as_secs_f64();
            return Err(slow(format!("the body has {} bytes after {seconds:.0} s", self.bytes)));
        }
        Ok(Some(part))
    }

    /// Refuses what is too large.
    async fn refuse(mut self, most: u64) -> Problem {
        let end = self.bytes.max(most) + DRAINED;
        while let Ok(Some(_)) = self.next().await {
            if self.bytes > end {
                break;
            }
        }
        Problem::too_large(format!("more than {most}"), most)
    }
}

fn slow(found: String) -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, format!("{found}, expected it to come faster"))
}

/// A small body, whole.
pub(super) async fn collect(body: Body, limits: Limits) -> Answer<Vec<u8>> {
    let most = limits.body_bytes;
    let mut arriving = Arriving::new(body, limits);
    let mut all = Vec::new();
    while let Some(part) = arriving.next().await? {
        all.extend_from_slice(&part);
        if arriving.bytes > most {
            return Err(arriving.refuse(most).await);
        }
    }
    Ok(all)
}

/// Takes a body of at most the limit, as long as there is room on the disk for all that arrives.
pub(super) async fn receive(
    service: &Arc<Service>,
    headers: &HeaderMap,
    ending: &str,
    body: Body,
) -> Answer<Received> {
    let most = service.limits.upload_bytes;
    let announced: Option<u64> =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut arriving = Arriving::new(body, service.limits);
    if announced.is_some_and(|found| found > most) {
        return Err(arriving.refuse(most).await);
    }
    // What is announced is taken at once, the rest as it comes.
    let mut room = disk_room(service).await?;
    room.take(announced.unwrap_or(0))?;
    let mut builder = tempfile::Builder::new();
    let temporary = builder.suffix(ending).tempfile_in(service.files.uploads())?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut hash = Sha256::new();
    while let Some(part) = arriving.next().await? {
        if arriving.bytes > most {
            return Err(arriving.refuse(most).await);
        }
        room.take(arriving.bytes.saturating_sub(room.taken()))?;
        hash.update(&part);
        file.write_all(&part).await?;
    }
    let bytes = arriving.bytes;
    if announced.is_some_and(|announced| announced != bytes) {
        return Err(Problem::bad("the upload broke off"));
    }
    file.flush().await?;
    file.sync_all().await?;
    service.metrics.upload_bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(Received { path, bytes, hash, _room: room })
}

/// Room on the disk beside what is kept there, if the owner bounds it. Counting files takes a while: not in the way of others.
async fn disk_room(service: &Arc<Service>) -> Answer<DiskRoom> {
    let Some(most) = service.max_disk else { return Ok(service.arriving.disk(None)) };
    let counting = service.clone();
    let kept = tokio::task::spawn_blocking(move || {
        counting.files.bytes().saturating_sub(counting.files.bytes_of_uploads())
    });
    let kept = kept.await.map_err(|_| Problem::internal())?;
    Ok(service.arriving.disk(Some(most.saturating_sub(kept))))
}
