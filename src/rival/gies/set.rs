//! Sets of variables.

/// A set of variables, one bit each. It takes no memory of its own for up to 64 variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Set {
    /// Variables 0 to 63.
    first: u64,
    /// 64 variables more with each word.
    rest: Vec<u64>,
}

impl Set {
    /// The empty set, with place for `dim` variables.
    pub(crate) fn empty(dim: usize) -> Self {
        Set { first: 0, rest: vec![0; dim.saturating_sub(1) / 64] }
    }

    /// The set of the given variables.
    pub(crate) fn of(dim: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Set::empty(dim);
        members.into_iter().for_each(|i| set.insert(i));
        set
    }

    /// Adds a variable.
    pub(crate) fn insert(&mut self, i: usize) {
        *self.word(i) |= 1 << (i % 64);
    }

    /// Removes a variable.
    pub(crate) fn remove(&mut self, i: usize) {
        *self.word(i) &= !(1 << (i % 64));
    }

    /// The set and one more variable.
    pub(crate) fn with(&self, i: usize) -> Self {
        let mut set = self.clone();
        set.insert(i);
        set
    }

    /// The set but for one variable.
    pub(crate) fn without(&self, i: usize) -> Self {
        let mut set = self.clone();
        set.remove(i);
        set
    }

    /// Whether the set holds a variable.
    pub(crate) fn contains(&self, i: usize) -> bool {
        let word = if i < 64 { self.first } else { self.rest[i / 64 - 1] };
        word >> (i % 64) & 1 == 1
    }

    /// Whether the set holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// The number of variables in the set.
    pub(crate) fn len(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// What is in either set.
    pub(crate) fn union(&self, other: &Set) -> Set {
        self.zip(other, |a, b| a | b)
    }

    /// What is in both sets.
    pub(crate) fn intersection(&self, other: &Set) -> Set {
        self.zip(other, |a, b| a & b)
    }

    /// What is in this set and not in the other.
    pub(crate) fn difference(&self, other: &Set) -> Set {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether the sets share a variable.
    pub(crate) fn meets(&self, other: &Set) -> bool {
        self.words().zip(other.words()).any(|(a, b)| a & b != 0)
    }

    /// Whether all of this set is in the other.
    pub(crate) fn is_within(&self, other: &Set) -> bool {
        self.words().zip(other.words()).all(|(a, b)| a & !b == 0)
    }

    /// The variables in the set, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words().enumerate().flat_map(|(at, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        })
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    fn word(&mut self, i: usize) -> &mut u64 {
        if i < 64 { &mut self.first } else { &mut self.rest[i / 64 - 1] }
    }

    fn zip(&self, other: &Set, combine: impl Fn(u64, u64) -> u64) -> Set {
        let rest = self.rest.iter().zip(&other.rest).map(|(&a, &b)| combine(a, b)).collect();
        Set { first: combine(self.first, other.first), rest }
    }
}
