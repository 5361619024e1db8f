//! Where a function on a grid is at least a level, by marching squares.

use crate::Matrix;

/// A corner of a region's outline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vertex {
    pub(super) at: (f64, f64),
    /// Whether the function crosses the level here; otherwise the grid ends.
    pub(super) crossing: bool,
}

/// A function known at the points of a grid.
pub(super) struct Grid<'a> {
    pub(super) x: &'a [f64],
    pub(super) y: &'a [f64],
    pub(super) values: &'a Matrix<f64>,
}

impl Grid<'_> {
    /// The number of columns with one more on either side. Around the grid, as at points that are not finite,
    /// the function counts as lower than everything: so every outline is a closed loop.
    fn columns(&self) -> usize {
        self.x.len() + 2
    }

    fn rows(&self) -> usize {
        self.y.len() + 2
    }

    /// The value at column `i` and row `j` of the widened grid.
    fn value(&self, (i, j): (usize, usize)) -> f64 {
        if (1..=self.x.len()).contains(&i) && (1..=self.y.len()).contains(&j) {
            let value = self.values[(j - 1, i - 1)];
            if value.is_finite() { value } else { f64::NEG_INFINITY }
        } else {
            f64::NEG_INFINITY
        }
    }

    /// The place of a point of the widened grid; those around lie on the border.
    fn place(&self, (i, j): (usize, usize)) -> (f64, f64) {
        let clamp = |index: usize, axis: &[f64]| axis[index.clamp(1, axis.len()) - 1];
        (clamp(i, self.x), clamp(j, self.y))
    }

    /// Where the function passes `level` between two neighbours, one at least `level`, one lower.
    fn cross(&self, from: (usize, usize), to: (usize, usize), level: f64) -> Vertex {
        let (high, low) = if self.value(from) >= level { (from, to) } else { (to, from) };
        let (top, bottom) = (self.value(high), self.value(low));
        let ((x, y), (x_low, y_low)) = (self.place(high), self.place(low));
        if bottom == f64::NEG_INFINITY {
            return Vertex { at: (x, y), crossing: false };
        }
        // Halves, because the difference of two large values can overflow.
        let t = (0.5 * top - 0.5 * level) / (0.5 * top - 0.5 * bottom);
        Vertex { at: (x + t * (x_low - x), y + t * (y_low - y)), crossing: true }
    }

    /// The outline of all places where the function is at least `level`: closed loops with the region on the
    /// left, so that holes run the other way round than what they are in.
    pub(super) fn outline(&self, level: f64) -> Vec<Vec<Vertex>> {
        let columns = self.columns();
        // Every edge that the outline crosses is where it leaves one cell and enters the next, once: a list of
        // successors holds the whole outline. Edge 2p leads right from point p, edge 2p + 1 leads up.
        let mut successor: Vec<Option<usize>> = vec![None; 2 * columns * self.rows()];
        for j in 0..self.rows() - 1 {
            for i in 0..columns - 1 {
                let corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)];
                let values = corners.map(|corner| self.value(corner));
                let high = values.map(|v| v >= level);
                let point = j * columns + i;
                let edges = [2 * point, 2 * (point + 1) + 1, 2 * (point + columns), 2 * point + 1];
                // Edge k joins corners k and k + 1. Counter-clockwise round the cell, the outline enters over
                // edges that lead down and leaves over edges that lead up.
                let down = |k: usize| high[k % 4] && !high[(k + 1) % 4];
                let up = |k: usize| !high[k % 4] && high[(k + 1) % 4];
                // With high corners opposite each other, the mean decides whether they are connected.
                let parted =
                    high[0] == high[2] && high[1] == high[3] && values.iter().sum::<f64>() / 4.0 < level;
                for k in (0..4).filter(|&k| down(k)) {
                    let exit = if parted { Some(k + 3) } else { (k + 1..k + 4).find(|&e| up(e)) };
                    successor[edges[k]] = exit.map(|exit| edges[exit % 4]);
                }
            }
        }
        let mut loops = Vec::new();
        for start in 0..successor.len() {
            let mut vertices = Vec::new();
            let mut edge = start;
            while let Some(next) = successor[edge].take() {
                let from = (edge / 2 % columns, edge / 2 / columns);
                let to = if edge % 2 == 0 { (from.0 + 1, from.1) } else { (from.0, from.1 + 1) };
                vertices.push(self.cross(from, to, level));
                edge = next;
            }
            if !vertices.is_empty() {
                loops.push(vertices);
            }
        }
        loops
    }
}

/// The parts of an outline along which the function has the level, as curves.
pub(super) fn level_lines(outline: &[Vec<Vertex>]) -> Vec<Vec<(f64, f64)>> {
    let mut curves = Vec::new();
    for vertices in outline {
        // Begin where the grid ends, if it does, so that no curve is cut at the loop's arbitrary start.
        let start = vertices.iter().position(|v| !v.crossing);
        let mut turned = vertices.clone();
        match start {
            Some(start) => turned.rotate_left(start),
            None => turned.push(vertices[0]),
        }
        curves.extend(
            turned
                .split(|v| !v.crossing)
                .filter(|part| part.len() > 1)
                .map(|part| part.iter().map(|v| v.at).collect()),
        );
    }
    curves
}

/// All loops as one closed polygon: each is reached from the first over a bridge that is walked both ways, which
/// encloses nothing. SVG polygons have a single ring, and holes need several.
pub(super) fn polygon(outline: &[Vec<Vertex>]) -> Vec<(f64, f64)> {
    let mut ring = Vec::new();
    for vertices in outline {
        ring.extend(vertices.iter().chain(vertices.first()).map(|v| v.at));
        ring.push(outline[0][0].at);
    }
    ring
}
