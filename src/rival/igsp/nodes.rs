//! Sets of variables as bits.

/// The most variables that a set can hold.
pub(super) const MOST: usize = 256;
const WORDS: usize = MOST / 64;

/// A set of variables, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Nodes([u64; WORDS]);

impl Nodes {
    /// The set of the given variables.
    pub(super) fn of(members: impl IntoIterator<Item = usize>) -> Self {
        members.into_iter().fold(Nodes::default(), Nodes::with)
    }

    /// The set and one more variable.
    pub(super) fn with(mut self, i: usize) -> Self {
        self.0[i / 64] |= 1 << (i % 64);
        self
    }

    /// The set but for one variable.
    pub(super) fn without(mut self, i: usize) -> Self {
        self.0[i / 64] &= !(1 << (i % 64));
        self
    }

    /// Whether the set holds a variable.
    pub(super) fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    /// The number of variables in the set.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The variables in the set, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(at, word)| {
            let after = |rest: &u64| Some(rest & rest.wrapping_sub(1));
            std::iter::successors(Some(word), after)
                .take_while(|rest| *rest != 0)
                .map(move |rest| 64 * at + rest.trailing_zeros() as usize)
        })
    }
}
