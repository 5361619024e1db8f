//! What all uploads under way need together: room on the disk while they arrive, and memory while they are read.

use crate::serve::domain::problem::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit that memory is counted in.
const UNIT: f64 = (1u64 << 20) as f64;

/// Uploads under way.
pub(in crate::serve) struct Arriving {
    /// Bytes on the disk that have come or were announced.
    on_disk: Arc<AtomicU64>,
    memory: Arc<Semaphore>,
    units: u32,
}

impl Arriving {
    /// Uploads that may use so many bytes of memory together.
    pub fn new(memory: u64) -> Self {
        let units = (memory as f64 / UNIT).ceil().clamp(1.0, f64::from(u32::MAX >> 4)) as u32;
        Arriving { on_disk: Arc::default(), memory: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// Room for an upload, of so many bytes for all that are under way; without a bound there is as much as anyone wants.
    pub fn disk(&self, room: Option<u64>) -> DiskRoom {
        DiskRoom { all: self.on_disk.clone(), room, taken: 0 }
    }

    /// Waits until so many bytes of memory are free for an upload, which has them until it drops this.
    pub async fn memory(&self, bytes: f64) -> Result<OwnedSemaphorePermit, Problem> {
        let units = (bytes / UNIT).ceil().clamp(1.0, f64::from(self.units)) as u32;
        self.memory.clone().acquire_many_owned(units).await.map_err(|_| Problem::internal())
    }
}

/// What one upload has of the disk, until it is dropped.
pub(in crate::serve) struct DiskRoom {
    all: Arc<AtomicU64>,
    room: Option<u64>,
    taken: u64,
}

impl DiskRoom {
    /// Takes more.
    pub fn take(&mut self, bytes: u64) -> Result<(), Problem> {
        let before = self.all.fetch_add(bytes, Ordering::Relaxed);
        self.taken += bytes;
        match self.room {
            Some(room) if before.saturating_add(bytes) > room => Err(Problem::disk_full()),
            _ => Ok(()),
        }
    }

    /// How much it has.
    pub fn taken(&self) -> u64 {
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
        let arriving = Arriving::new(1);
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
            let arriving = Arriving::new(100 << 20);
            let soon = |bytes: f64| tokio::time::timeout(Duration::from_millis(50), arriving.memory(bytes));
            let first = soon(60.0 * UNIT).await.unwrap().unwrap();
            assert!(soon(60.0 * UNIT).await.is_err(), "two of sixty are more than a hundred");
            let _small = soon(30.0 * UNIT).await.unwrap().unwrap();
            drop(first);
            assert!(soon(60.0 * UNIT).await.is_ok());
        });
    }
}
