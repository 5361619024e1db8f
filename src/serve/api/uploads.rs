//! Receives files: streamed to the disk under a temporary name, hashed on the way.

use super::Answer;
use crate::serve::id::ContentId;
use crate::serve::problem::Problem;
use crate::serve::service::Service;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::sync::atomic::Ordering;
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;

/// A file that has arrived whole; it is gone when this is dropped, unless it was given a place.
pub(super) struct Received {
    pub path: TempPath,
    pub bytes: u64,
    pub hash: Sha256,
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

/// Refuses a body of which `read` bytes have arrived.
async fn refuse(mut stream: BodyDataStream, mut read: u64, most: u64) -> Problem {
    let end = read.max(most) + DRAINED;
    while let Some(Ok(part)) = stream.next().await {
        read += part.len() as u64;
        if read > end {
            break;
        }
    }
    Problem::too_large(format!("more than {most}"), most)
}

/// A small body, whole.
pub(super) async fn collect(body: Body, most: u64) -> Answer<Vec<u8>> {
    let mut stream = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(part) = stream.next().await {
        all.extend_from_slice(&part.map_err(|_| Problem::bad("the request broke off"))?);
        if all.len() as u64 > most {
            return Err(refuse(stream, all.len() as u64, most).await);
        }
    }
    Ok(all)
}

/// Takes a body of at most the limit.
pub(super) async fn receive(
    service: &Service,
    headers: &HeaderMap,
    ending: &str,
    body: Body,
) -> Answer<Received> {
    let most = service.limits.upload_bytes;
    let announced: Option<u64> =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|found| found > most) {
        return Err(refuse(body.into_data_stream(), 0, most).await);
    }
    if let (Some(disk), Some(announced)) = (service.max_disk, announced)
        && service.files.bytes() + announced > disk
    {
        return Err(Problem::disk_full());
    }
    let mut builder = tempfile::Builder::new();
    let temporary = builder.suffix(ending).tempfile_in(service.files.uploads())?;
    let (file, path) = temporary.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let (mut hash, mut bytes) = (Sha256::new(), 0u64);
    let mut stream = body.into_data_stream();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|_| Problem::bad("the upload broke off"))?;
        bytes += part.len() as u64;
        if bytes > most {
            return Err(refuse(stream, bytes, most).await);
        }
        hash.update(&part);
        file.write_all(&part).await?;
    }
    if announced.is_some_and(|announced| announced != bytes) {
        return Err(Problem::bad("the upload broke off"));
    }
    file.flush().await?;
    file.sync_all().await?;
    service.metrics.upload_bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(Received { path, bytes, hash })
}
