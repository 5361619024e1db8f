//! The linear assignment problem: match every row with a column of its own so that the costs add up to the least.
//!
//! Prices v of the columns, and the rest u of every row, prove a matching to be optimal: if u_i + v_j ≤ C_ij for all
//! pairs and = for matched ones, no matching costs less than Σu + Σv, and this one costs just that. The method keeps
//! such prices throughout and makes the matching grow, after Jonker and Volgenant (1987): rows bid for columns, a few
//! rounds; for rows that are left without, the shortest path over matched pairs to a free column (Dijkstra's, O(n²)
//! each) tells how to shift the matching and the prices. What they start with, the reduction of columns, is left to the
//! caller, who may know better prices.
//!
//! All scans run over whole rows in vector code, including columns that are already done with: that is faster than
//! to skip them.

use super::costs::{Costs, LANES, fold, groups, vectorised};

/// No row, no column.
const NONE: usize = usize::MAX;
/// Bids per row before shortest paths take over. Bidding wars between rows with near equal wishes take many small
/// steps, which a path takes at once.
const BIDS_PER_ROW: usize = 4;

/// A matching of least cost, with its proof.
pub(super) struct Assignment {
    /// The column of every row.
    pub matching: Vec<usize>,
    /// v: the price of every column; the rows' u_i is C_ij − v_j of the matched column j.
    #[cfg_attr(not(test), expect(dead_code, reason = "what the tests check optimality with"))]
    pub prices: Vec<f64>,
}

/// Solves the problem for finite square `costs`. Any finite `prices` lead to an optimal matching, good ones sooner.
pub(super) fn assign(costs: &Costs, prices: &[f64]) -> Assignment {
    debug_assert_eq!(costs.rows(), costs.cols(), "every row needs a column of its own");
    let mut solver = Solver::new(costs, prices);
    vectorised(
        #[inline(always)]
        || {
            let free = solver.bid((0..costs.rows()).collect());
            solver.augment(&free);
        },
    );
    solver.price.truncate(costs.cols());
    Assignment { matching: solver.column, prices: solver.price }
}

struct Solver<'a> {
    costs: &'a Costs,
    /// The column of every row.
    column: Vec<usize>,
    /// The row of every column.
    row: Vec<usize>,
    /// Padded like a row of costs.
    price: Vec<f64>,
}

impl<'a> Solver<'a> {
    fn new(costs: &'a Costs, prices: &[f64]) -> Self {
        let n = costs.rows();
        // Costs of the padding are infinite; a finite price keeps them that.
        let mut price = vec![0.0; costs.stride()];
        price[..n].copy_from_slice(&prices[..n]);
        Solver { costs, column: vec![NONE; n], row: vec![NONE; n], price }
    }

    fn match_pair(&mut self, i: usize, j: usize) {
        self.column[i] = j;
        self.row[j] = i;
    }

    /// Rows without a column bid: each takes the column that leaves it most, priced down to where its second choice
    /// is as good, from whoever has it. Returns the rows that are left without.
    #[inline(always)]
    fn bid(&mut self, mut waiting: Vec<usize>) -> Vec<usize> {
        let mut without = Vec::new();
        let mut bids = BIDS_PER_ROW * self.costs.rows();
        while let Some(i) = waiting.pop() {
            if bids == 0 || self.costs.rows() == 1 {
                without.push(i);
                continue;
            }
            bids -= 1;
            let (first, second, j) = self.two_cheapest(i);
            let lowered = self.price[j] - (second - first);
            let strictly = lowered < self.price[j];
            let loser = self.row[j];
            if loser != NONE && !strictly {
                // Nothing gained by taking turns at equal prices.
                without.push(i);
                continue;
            }
            self.price[j] = lowered;
            self.match_pair(i, j);
            if loser != NONE {
                self.column[loser] = NONE;
                waiting.push(loser);
            }
        }
        without
    }

    /// The least and second least of C_ij − v_j over j, and the column of the least.
    #[inline(always)]
    fn two_cheapest(&self, i: usize) -> (f64, f64, usize) {
        let row = self.costs.row(i);
        let mut least = [f64::INFINITY; LANES];
        let mut next = [f64::INFINITY; LANES];
        for (cost, price) in groups(row).iter().zip(groups(&self.price)) {
            for l in 0..LANES {
                let rest = cost[l] - price[l];
                let larger = if rest > least[l] { rest } else { least[l] };
                next[l] = if larger < next[l] { larger } else { next[l] };
                least[l] = if rest < least[l] { rest } else { least[l] };
            }
        }
        let first = fold(least, f64::min);
        let lane = least.iter().position(|&rest| rest == first).unwrap_or(0);
        least[lane] = next[lane];
        let second = fold(least, f64::min);
        let at = (lane..row.len()).step_by(LANES).find(|&j| row[j] - self.price[j] == first);
        (first, second, at.unwrap_or(lane))
    }

    /// Gives a column to every row of `free` along a shortest path over C − u − v.
    #[inline(always)]
    fn augment(&mut self, free: &[usize]) {
        let n = self.costs.rows();
        let stride = self.price.len();
        // How far each column is; −∞ once it is settled, so that nothing is nearer. And from which row.
        let mut distance = vec![0.0; stride];
        let mut from = vec![NONE; stride];
        let mut settled: Vec<(usize, f64)> = Vec::with_capacity(n);
        for &start in free {
            distance.fill(f64::INFINITY);
            settled.clear();
            let (mut i, mut travelled, mut rest) = (start, 0.0, 0.0);
            let end = loop {
                let nearest = self.relax(i, travelled - rest, &mut distance, &mut from);
                let Some(j) = nearest else { break None };
                travelled = distance[j];
                if self.row[j] == NONE {
                    break Some(j);
                }
                distance[j] = f64::NEG_INFINITY;
                settled.push((j, travelled));
                i = self.row[j];
                rest = self.costs.row(i)[j] - self.price[j];
            };
            // There are as many columns as rows, so a free one is always reached.
            let Some(mut j) = end else { continue };
            for &(j, distance) in &settled {
                self.price[j] += distance - travelled;
            }
            loop {
                let i = from[j];
                let previous = self.column[i];
                self.match_pair(i, j);
                if i == start {
                    break;
                }
                j = previous;
            }
        }
    }

    /// Brings columns nearer that are so by way of row `i`, and returns the nearest that is not settled.
    #[inline(always)]
    fn relax(&self, i: usize, offset: f64, distance: &mut [f64], from: &mut [usize]) -> Option<usize> {
        let mut least = [f64::INFINITY; LANES];
        let groups = groups(self.costs.row(i)).iter().zip(groups(&self.price));
        let state = distance.as_chunks_mut::<LANES>().0.iter_mut().zip(from.as_chunks_mut::<LANES>().0);
        for ((cost, price), (distance, from)) in groups.zip(state) {
            // Copies, or else the compiler checks every time whether the slices overlap.
            let (mut near, mut by) = (*distance, *from);
            for l in 0..LANES {
                let by_row = cost[l] - price[l] + offset;
                let nearer = by_row < near[l];
                near[l] = if nearer { by_row } else { near[l] };
                by[l] = if nearer { i } else { by[l] };
                let open = if near[l] == f64::NEG_INFINITY { f64::INFINITY } else { near[l] };
                least[l] = if open < least[l] { open } else { least[l] };
            }
            (*distance, *from) = (near, by);
        }
        let nearest = fold(least, f64::min);
        let lane = least.iter().position(|&distance| distance == nearest)?;
        (lane..self.costs.cols()).step_by(LANES).find(|&j| distance[j] == nearest)
    }
}
