//! A reader with a limit of bytes, which bounds the memory of what reads from it.

use std::io::{self, Read, Seek, SeekFrom};

/// Fails when more bytes are read than [allowed](Bounded::allow). Code that reads a line or record into memory then fails
/// before it runs out of memory.
pub(super) struct Bounded<R> {
    inner: R,
    left: u64,
    /// Whether a read went beyond the limit.
    pub exceeded: bool,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R) -> Self {
        Bounded { inner, left: 0, exceeded: false }
    }

    /// Sets how many bytes may be read from here on.
    pub(super) fn allow(&mut self, bytes: u64) {
        self.left = bytes;
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !buffer.is_empty() {
            // The end of the file is no excess.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => {
                    self.exceeded = true;
                    Err(io::Error::other("more bytes than allowed"))
                }
            };
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Bytes that are passed over are not read.
impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
