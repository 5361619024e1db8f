//! What all uploads share: room on the disk while they arrive, and memory while they are read.

use crate::serve::domain::error::ServiceError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of memory.
const UNIT: f64 = (1u64 << 20) as f64;

/// The disk and the memory for uploads.
pub(in crate::serve) struct UploadBudget {
    /// Bytes on the disk that have arrived or were announced.
    on_disk: Arc<AtomicU64>,
    memory: Arc<Semaphore>,
    units: u32,
}

impl UploadBudget {
    /// Uploads may use so many bytes of memory together.
    pub(crate) fn new(memory: u64) -> Self {
        let units = (memory as f64 / UNIT).ceil().clamp(1.0, f64::from(u32::MAX >> 4)) as u32;
        UploadBudget { on_disk: Arc::default(), memory: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Room on the disk for one upload, out of so many bytes for all uploads; without a number there is no limit.
    pub(crate) fn disk(&self, room: Option<u64>) -> DiskRoom {
        DiskRoom { all: self.on_disk.clone(), room, taken: 0 }
    }

    /// Waits until so many bytes of memory are free for an upload. It has them until it drops the permit.
    pub(crate) async fn memory(&self, bytes: f64) -> Result<OwnedSemaphorePermit, ServiceError> {
        let units = (bytes / UNIT).ceil().clamp(1.0, f64::from(self.units)) as u32;
        self.memory.clone().acquire_many_owned(units).await.map_err(|_| ServiceError::Internal)
    }
}

/// The room on the disk that one upload has, until this is dropped.
pub(in crate::serve) struct DiskRoom {
    all: Arc<AtomicU64>,
    room: Option<u64>,
    taken: u64,
}

impl DiskRoom {
    /// Takes more bytes.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), ServiceError> {
        let before = self.all.fetch_add(bytes, Ordering::Relaxed);
        self.taken += bytes;
        match self.room {
            Some(room) if before.saturating_add(bytes) > room => Err(ServiceError::DiskFull),
            _ => Ok(()),
        }
    }

    /// The bytes taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

impl Drop for DiskRoom {
    fn drop(&mut self) {
        self.all.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn uploads_share_the_disk_that_is_left() {
        let arriving = UploadBudget::new(1);
        let mut first = arriving.disk(Some(100));
        first.take(60).unwrap();
        let mut second = arriving.disk(Some(100));
        assert!(second.take(30).is_ok() && second.take(30).is_err());
        drop(second);
        assert!(first.take(40).is_ok() && first.take(1).is_err());
        assert!(arriving.disk(None).take(1 << 40).is_ok());
    }

    #[test]
    fn uploads_wait_for_memory_that_others_use() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let arriving = UploadBudget::new(100 << 20);
            let soon = |bytes: f64| tokio::time::timeout(Duration::from_millis(50), arriving.memory(bytes));
            let first = soon(60.0 * UNIT).await.unwrap().unwrap();
            assert!(soon(60.0 * UNIT).await.is_err(), "two of sixty are more than a hundred");
            let _small = soon(30.0 * UNIT).await.unwrap().unwrap();
            drop(first);
            assert!(soon(60.0 * UNIT).await.is_ok());
        });
    }
}
