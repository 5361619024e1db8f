//! Receives files: streamed to the disk under a temporary name, hashed on the way.

use super::Answer;
use crate::serve::id::ContentId;
use crate::serve::problem::Problem;
use crate::serve::service::Service;
use axum::body::Body;
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
    /// Its hash together with what else tells it from others.
    pub fn id(&self, more: &str) -> ContentId {
        let mut hash = self.hash.clone();
        hash.update(more);
        ContentId::of(hash)
    }
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
    if let Some(found) = announced.filter(|found| *found > most) {
        return Err(Problem::too_large(found, most));
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
            return Err(Problem::too_large(format!("more than {most}"), most));
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
