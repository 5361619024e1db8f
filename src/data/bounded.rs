//! A reader that gives out only so many bytes at a time.

use std::io::{self, Read, Seek, SeekFrom};

/// Fails when more is read than [`allow`](Bounded::allow) said: what reads lines or records into memory then ends before
/// the memory does.
pub(super) struct Bounded<R> {
    inner: R,
    left: u64,
    /// Whether more was wanted than allowed.
    pub exceeded: bool,
}

impl<R> Bounded<R> {
    pub fn new(inner: R) -> Self {
        Bounded { inner, left: 0, exceeded: false }
    }

    /// Sets how many bytes may be read from here on.
    pub fn allow(&mut self, bytes: u64) {
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
