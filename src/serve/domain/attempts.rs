//! Wrong tokens: whoever tries many is answered later and later, and then not at all for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Wrong tokens from an address that are looked at within [`WINDOW`].
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// An answer waits so much longer with every wrong token before it.
const SLOWER: Duration = Duration::from_millis(25);
/// The longest wait.
const SLOWEST: Duration = Duration::from_millis(500);
/// Addresses that are remembered; beyond, the oldest is forgotten.
const REMEMBERED: usize = 4096;
/// Good tokens that are remembered for an address.
const GOOD: usize = 64;

/// Wrong tokens by address.
#[derive(Default)]
pub struct Attempts {
    by_address: Mutex<HashMap<IpAddr, Tried>>,
}

struct Tried {
    since: Instant,
    wrong: u32,
    /// Hashes of tokens that were right: behind a proxy all clients have one address, and those who were in stay in.
    good: Vec<[u8; 32]>,
}

/// What to do about a wrong token.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Refuse after a while.
    Refuse(Duration),
    /// Refuse to look at more of them for so long.
    TooMany(Duration),
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Tried>> {
        self.by_address.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a right token is let in: not for the first time while its address has tried too many wrong ones, for it may have
    /// been guessed.
    pub fn admits(&self, address: IpAddr, token: &[u8; 32], now: Instant) -> Result<(), Duration> {
        let mut all = self.lock();
        let tried = entry(&mut all, address, now);
        if tried.good.contains(token) {
            return Ok(());
        }
        if let Some(left) = tried.locked(now) {
            return Err(left);
        }
        if tried.good.len() < GOOD {
            tried.good.push(*token);
        }
        Ok(())
    }

    /// A wrong token came from an address.
    pub fn wrong(&self, address: IpAddr, now: Instant) -> Verdict {
        let mut all = self.lock();
        let tried = entry(&mut all, address, now);
        if now.duration_since(tried.since) >= WINDOW {
            (tried.since, tried.wrong) = (now, 0);
        }
        tried.wrong = tried.wrong.saturating_add(1);
        match tried.locked(now) {
            Some(left) => Verdict::TooMany(left),
            None => Verdict::Refuse((SLOWER * tried.wrong).min(SLOWEST)),
        }
    }
}

fn entry(all: &mut HashMap<IpAddr, Tried>, address: IpAddr, now: Instant) -> &mut Tried {
    if all.len() >= REMEMBERED && !all.contains_key(&address) {
        let oldest = all.iter().min_by_key(|(_, tried)| tried.since).map(|(address, _)| *address);
        oldest.map(|address| all.remove(&address));
    }
    all.entry(address).or_insert(Tried { since: now, wrong: 0, good: Vec::new() })
}

impl Tried {
    /// How long no new token is looked at, if that is so.
    fn locked(&self, now: Instant) -> Option<Duration> {
        let age = now.duration_since(self.since);
        (self.wrong > MOST && age < WINDOW).then(|| WINDOW - age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(k: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(k))
    }

    #[test]
    fn wrong_tokens_are_answered_later_and_later_and_then_not_looked_at() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        let (old, new) = ([1; 32], [2; 32]);
        assert_eq!(attempts.admits(address(1), &old, start), Ok(()));
        let waits: Vec<Verdict> = (0..MOST).map(|_| attempts.wrong(address(1), start)).collect();
        assert_eq!(waits[0], Verdict::Refuse(SLOWER));
        assert_eq!(waits[1], Verdict::Refuse(2 * SLOWER));
        assert_eq!(waits.last(), Some(&Verdict::Refuse(SLOWEST)));
        let later = start + WINDOW / 2;
        assert_eq!(attempts.wrong(address(1), later), Verdict::TooMany(WINDOW / 2));
        // A token that is new there may be a guess; one that was right before is none, and other addresses are others.
        assert_eq!(attempts.admits(address(1), &new, later), Err(WINDOW / 2));
        assert_eq!(attempts.admits(address(1), &old, later), Ok(()));
        assert_eq!(attempts.admits(address(2), &new, later), Ok(()));
        // A minute later it is forgotten.
        assert_eq!(attempts.admits(address(1), &new, start + WINDOW), Ok(()));
        assert_eq!(attempts.wrong(address(1), start + WINDOW), Verdict::Refuse(SLOWER));
    }

    #[test]
    fn addresses_without_number_take_bounded_memory() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for k in 0..3 * REMEMBERED as u32 {
            attempts.wrong(address(k), start + Duration::from_millis(u64::from(k)));
        }
        assert_eq!(attempts.lock().len(), REMEMBERED);
    }
}
