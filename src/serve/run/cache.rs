//! A cache of files that were read, because many requests refer to the same ones.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Keeps the entries that were used last, up to a total size.
pub(super) struct Cache<K, V> {
    entries: Mutex<Entries<K, V>>,
    most: usize,
}

struct Entries<K, V> {
    by_key: HashMap<K, (Arc<V>, usize, u64)>,
    size: usize,
    clock: u64,
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    /// A cache of so many units of size.
    pub(super) fn new(most: usize) -> Self {
        Cache { entries: Mutex::new(Entries { by_key: HashMap::new(), size: 0, clock: 0 }), most }
    }

    /// The entry of a key. `make` makes it if it is not there.
    pub(super) fn get<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<V, E>,
        size: impl FnOnce(&V) -> usize,
    ) -> Result<Arc<V>, E> {
        {
            let mut entries = self.lock();
            entries.clock += 1;
            let clock = entries.clock;
            if let Some((value, _, used)) = entries.by_key.get_mut(key) {
                *used = clock;
                return Ok(value.clone());
            }
        }
        // Without the lock, two threads may read the same file. That costs time and nothing else.
        let value = Arc::new(make()?);
        let size = size(&value);
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        if let Some((_, old, _)) = entries.by_key.insert(key.clone(), (value.clone(), size, clock)) {
            entries.size -= old;
        }
        entries.size += size;
        while entries.size > self.most && entries.by_key.len() > 1 {
            let oldest =
                entries.by_key.iter().min_by_key(|(_, (_, _, used))| *used).map(|(key, _)| key.clone());
            let removed = oldest.and_then(|key| entries.by_key.remove(&key));
            entries.size -= removed.map_or(0, |(_, size, _)| size);
        }
        Ok(value)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let cache = Cache::new(10);
        let get = |key: u32| {
            let mut made = false;
            let make = || {
                made = true;
                Ok::<_, ()>(key)
            };
            cache.get(&key, make, |_| 4).unwrap();
            made
        };
        assert!(get(1) && get(2));
        assert!(!get(1));
        // The third does not fit beside both; 2 was used longest ago.
        assert!(get(3));
        assert!(!get(1) && get(2));
    }
}
