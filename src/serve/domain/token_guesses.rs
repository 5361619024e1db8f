//! Limits guesses of tokens: an address that sends wrong ones waits longer for each answer, and then is refused for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The most wrong tokens of an address that are checked within [`WINDOW`].
const MOST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// Every wrong token delays the next answer by this much more.
const SLOWER: Duration = Duration::from_millis(25);
/// The longest delay.
const SLOWEST: Duration = Duration::from_millis(500);
/// The most addresses that are remembered; then the oldest is forgotten.
const REMEMBERED: usize = 4096;
/// The most valid tokens that are remembered for an address.
const GOOD: usize = 64;

/// Wrong tokens by address.
#[derive(Default)]
pub(crate) struct TokenGuesses {
    by_address: Mutex<HashMap<IpAddr, AddressRecord>>,
}

struct AddressRecord {
    since: Instant,
    wrong: u32,
    /// Hashes of valid tokens. Behind a proxy all clients have one address, and those who were let in stay in.
    good: Vec<[u8; 32]>,
}

/// What to do about a wrong token.
#[derive(Debug, PartialEq)]
pub(crate) enum WrongToken {
    /// Refuse it after this delay.
    Refuse(Duration),
    /// Refuse further tokens for this long.
    TooMany(Duration),
}

impl TokenGuesses {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressRecord>> {
        self.by_address.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Admits a valid token, or says how long it has to wait. A token that is new to an address which has sent too many wrong ones
    /// may have been guessed.
    pub(crate) fn admits(&self, address: IpAddr, token: &[u8; 32], now: Instant) -> Result<(), Duration> {
        let mut all = self.lock();
        let record = entry(&mut all, address, now);
        if record.good.contains(token) {
            return Ok(());
        }
        if let Some(left) = record.locked(now) {
            return Err(left);
        }
        if record.good.len() < GOOD {
            record.good.push(*token);
        }
        Ok(())
    }

    /// Counts a wrong token from an address.
    pub(crate) fn wrong(&self, address: IpAddr, now: Instant) -> WrongToken {
        let mut all = self.lock();
        let record = entry(&mut all, address, now);
        if now.duration_since(record.since) >= WINDOW {
            (record.since, record.wrong) = (now, 0);
        }
        record.wrong = record.wrong.saturating_add(1);
        match record.locked(now) {
            Some(left) => WrongToken::TooMany(left),
            None => WrongToken::Refuse((SLOWER * record.wrong).min(SLOWEST)),
        }
    }
}

fn entry(all: &mut HashMap<IpAddr, AddressRecord>, address: IpAddr, now: Instant) -> &mut AddressRecord {
    if all.len() >= REMEMBERED && !all.contains_key(&address) {
        let oldest = all.iter().min_by_key(|(_, record)| record.since).map(|(address, _)| *address);
        oldest.map(|address| all.remove(&address));
    }
    all.entry(address).or_insert(AddressRecord { since: now, wrong: 0, good: Vec::new() })
}

impl AddressRecord {
    /// How long new tokens of this address are refused, if they are.
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
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        let (old, new) = ([1; 32], [2; 32]);
        assert_eq!(guesses.admits(address(1), &old, start), Ok(()));
        let waits: Vec<WrongToken> = (0..MOST).map(|_| guesses.wrong(address(1), start)).collect();
        assert_eq!(waits[0], WrongToken::Refuse(SLOWER));
        assert_eq!(waits[1], WrongToken::Refuse(2 * SLOWER));
        assert_eq!(waits.last(), Some(&WrongToken::Refuse(SLOWEST)));
        let later = start + WINDOW / 2;
        assert_eq!(guesses.wrong(address(1), later), WrongToken::TooMany(WINDOW / 2));
        // A token that is new there may be a guess. One that was valid before is not, and other addresses are not affected.
        assert_eq!(guesses.admits(address(1), &new, later), Err(WINDOW / 2));
        assert_eq!(guesses.admits(address(1), &old, later), Ok(()));
        assert_eq!(guesses.admits(address(2), &new, later), Ok(()));
        // A minute later it is forgotten.
        assert_eq!(guesses.admits(address(1), &new, start + WINDOW), Ok(()));
        assert_eq!(guesses.wrong(address(1), start + WINDOW), WrongToken::Refuse(SLOWER));
    }

    #[test]
    fn any_number_of_addresses_takes_bounded_memory() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        for k in 0..3 * REMEMBERED as u32 {
            guesses.wrong(address(k), start + Duration::from_millis(u64::from(k)));
        }
        assert_eq!(guesses.lock().len(), REMEMBERED);
    }
}
