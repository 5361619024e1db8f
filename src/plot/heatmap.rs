//! Heatmaps: a matrix as coloured squares, with a name for each row and column.

use super::axes::{LETTERS, Range, numbers_width, ticks_beside};
use super::canvas::{Anchor, Canvas, GREY, INK, WHITE};
use super::colour::diverging;
use super::draw::{FRAME, PanelLayout, SCALE, TEXT_LINE};
use crate::{Matrix, Result};

/// The most squares along a side: with more, squares would be too small and files too large.
const MOST: usize = 200;
/// The most names along a side that are all shown.
const ALL_NAMED: usize = 40;
/// The letters of names where squares are small, and the distance of neighbouring names.
const SMALL: f64 = 0.8 * LETTERS;
const SMALL_LINE: f64 = 13.0;
/// The length to which names are shortened.
const NAME_CHARS: usize = 20;
/// The approximate width of a letter in names, as a share of its size: names have many capitals and digits, which are wide.
const NAME_WIDTH: f64 = 0.67;
/// The colour scale is at least this high, however few rows there are.
const LEAST_SCALE: f64 = 120.0;
const TICK: f64 = 5.0;
/// The colour of squares without a value.
const ABSENT: [u8; 3] = [214, 214, 214];
const GRID: [u8; 3] = [232, 232, 232];

/// A matrix with few enough squares to draw.
pub(super) struct Heatmap {
    rows: Vec<String>,
    columns: Vec<String>,
    values: Matrix<f64>,
    /// Rows and columns of the given matrix per square.
    block: usize,
    /// The side of a square: a whole number of points, so that neighbours meet without a seam.
    side: f64,
    /// The scale reaches from −largest to largest.
    largest: f64,
}

impl Heatmap {
    /// The squares of a matrix and its names. Entries of a large matrix are combined in blocks.
    pub(super) fn new(rows: &[String], columns: &[String], values: &Matrix<f64>) -> Self {
        let block = rows.len().max(columns.len()).div_ceil(MOST).max(1);
        let named = |names: &[String]| names.iter().step_by(block).map(|name| shortened(name)).collect();
        let (rows, columns): (Vec<_>, Vec<_>) = (named(rows), named(columns));
        let pooled = Matrix::from_fn(rows.len(), columns.len(), |i, j| strongest(values, i, j, block));
        let largest = pooled.as_slice().iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
        Heatmap {
            side: side(rows.len().max(columns.len())),
            rows,
            columns,
            values: pooled,
            block,
            largest: if largest > 0.0 { largest } else { 1.0 },
        }
    }

    /// The interval of the colour scale; none if it exceeds the largest number.
    pub(super) fn range(&self) -> Option<Range> {
        Range::of([-self.largest, self.largest].into_iter())
    }

    /// The title, which mentions blocks if there are any.
    pub(super) fn heading(&self, title: &str) -> String {
        match (self.block, title.is_empty()) {
            (1, _) => title.into(),
            (block, true) => format!("each square the strongest of {block} × {block}"),
            (block, false) => format!("{title}; each square the strongest of {block} × {block}"),
        }
    }

    pub(super) fn room(&self, title: &str, scale: Range) -> PanelLayout {
        let (width, height) = self.size();
        // A long title above a narrow frame needs room on both sides.
        let beyond = 0.5 * (text_width(&self.heading(title), 1.1 * LETTERS) - width);
        PanelLayout {
            frame: (width, height),
            left: (self.names_beside() + 1.5 * LETTERS).max(beyond),
            right: (SCALE.0 + SCALE.1 + TICK + 4.0 + numbers_width(scale)).max(beyond),
            below: (self.names_below() + 2.2 * LETTERS).max(LEAST_SCALE - height + LETTERS),
        }
    }

    fn size(&self) -> (f64, f64) {
        (self.side * self.columns.len() as f64, self.side * self.rows.len() as f64)
    }

    fn letters(&self) -> f64 {
        if self.side >= TEXT_LINE { LETTERS } else { SMALL }
    }

    /// The distance between rows or columns with names: 1, 2, 5, 10, 20, 50 …
    fn stride(&self) -> usize {
        let line = if self.side >= TEXT_LINE { TEXT_LINE } else { SMALL_LINE };
        let mut strides = (0..).flat_map(|power| [1, 2, 5].map(|m| m * 10usize.pow(power)));
        strides.find(|&stride| self.side * stride as f64 >= line).unwrap_or(1)
    }

    /// Whether the columns' names fit side by side.
    fn level_names(&self) -> bool {
        widest(&self.columns, self.letters()) + LETTERS <= self.side * self.stride() as f64
    }

    /// The height of ticks and names below the frame.
    fn names_below(&self) -> f64 {
        let level = self.level_names();
        TICK + if level { TEXT_LINE } else { widest(&self.columns, self.letters()) + 0.3 * LETTERS }
    }

    /// The width of ticks and names beside the frame.
    fn names_beside(&self) -> f64 {
        TICK + widest(&self.rows, self.letters()) + 0.3 * LETTERS
    }

    /// Draws squares, names and scale; `at` is the upper left corner in whole points.
    pub(super) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        at: (f64, f64),
        scale: Range,
        labels: (&str, &str),
    ) -> Result<()> {
        let (width, height) = self.size();
        self.squares(canvas, at)?;
        if self.rows.len().max(self.columns.len()) <= ALL_NAMED {
            for j in 1..self.columns.len() {
                let x = at.0 + self.side * j as f64;
                canvas.curve(&[(x, at.1), (x, at.1 + height)], GRID, 0.5)?;
            }
            for i in 1..self.rows.len() {
                let y = at.1 + self.side * i as f64;
                canvas.curve(&[(at.0, y), (at.0 + width, y)], GRID, 0.5)?;
            }
        }
        outline(canvas, at, (width, height))?;
        self.names(canvas, at, height)?;
        let below = (at.0 + 0.5 * width, at.1 + height + self.names_below() + 0.9 * LETTERS);
        canvas.text(labels.0, below, LETTERS, Anchor::Middle)?;
        let beside = (at.0 - self.names_beside() - 0.7 * LETTERS, at.1 + 0.5 * height);
        canvas.text(labels.1, beside, LETTERS, Anchor::Upwards)?;
        draw_scale(canvas, (at.0 + width + SCALE.0, at.1), height.max(LEAST_SCALE), scale)
    }

    /// Neighbours of one colour become one rectangle, and white ones none, so sparse matrices make small files.
    fn squares(&self, canvas: &mut Canvas<'_>, (left, top): (f64, f64)) -> Result<()> {
        let x = |j: usize| left + self.side * j as f64;
        for i in 0..self.rows.len() {
            let colours: Vec<_> = self.values.row(i).iter().map(|&v| self.colour(v)).collect();
            let (low, high) = (top + self.side * i as f64, top + self.side * (i + 1) as f64);
            let mut start = 0;
            for run in colours.chunk_by(|a, b| a == b) {
                let end = start + run.len();
                if run[0] != WHITE {
                    canvas.polygon(
                        &[(x(start), low), (x(end), low), (x(end), high), (x(start), high)],
                        run[0],
                    )?;
                }
                start = end;
            }
        }
        Ok(())
    }

    fn colour(&self, value: f64) -> [u8; 3] {
        if value.is_finite() { diverging(value / self.largest) } else { ABSENT }
    }

    fn names(&self, canvas: &mut Canvas<'_>, (left, top): (f64, f64), height: f64) -> Result<()> {
        let (stride, letters, bottom) = (self.stride(), self.letters(), top + height);
        let middle = |index: usize| self.side * (index as f64 + 0.5);
        for (i, name) in self.rows.iter().enumerate().step_by(stride) {
            let y = top + middle(i);
            if stride > 1 {
                canvas.curve(&[(left - TICK, y), (left, y)], GREY, 1.0)?;
            }
            canvas.text(name, (left - TICK - 2.0, y), letters, Anchor::Right)?;
        }
        for (j, name) in self.columns.iter().enumerate().step_by(stride) {
            let x = left + middle(j);
            if stride > 1 {
                canvas.curve(&[(x, bottom), (x, bottom + TICK)], GREY, 1.0)?;
            }
            if self.level_names() {
                canvas.text(name, (x, bottom + TICK + 0.5 * TEXT_LINE), letters, Anchor::Middle)?;
            } else {
                canvas.text(name, (x, bottom + TICK + 2.0), letters, Anchor::UpwardsTo)?;
            }
        }
        Ok(())
    }
}

/// The value of largest size in a block; NaN if none is finite.
fn strongest(values: &Matrix<f64>, i: usize, j: usize, block: usize) -> f64 {
    let rows = i * block..((i + 1) * block).min(values.rows());
    let columns = j * block..((j + 1) * block).min(values.cols());
    let all = rows.flat_map(|i| values.row(i)[columns.clone()].iter().copied());
    let larger = |a: f64, b: f64| if b.abs() > a.abs() { b } else { a };
    all.filter(|v| v.is_finite()).reduce(larger).unwrap_or(f64::NAN)
}

/// The side of a square with `count` in a row: the frame is as large as others, or as large as the names need.
fn side(count: usize) -> f64 {
    let share = |width: f64| (width / count as f64).floor();
    if count <= ALL_NAMED {
        share(FRAME.0).max(SMALL_LINE)
    } else {
        share(SMALL_LINE * ALL_NAMED as f64).max(2.0)
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.into();
    }
    name.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

pub(super) fn text_width(text: &str, letters: f64) -> f64 {
    NAME_WIDTH * letters * text.chars().count() as f64
}

fn widest(names: &[String], letters: f64) -> f64 {
    names.iter().map(|name| text_width(name, letters)).fold(0.0, f64::max)
}

fn outline(canvas: &mut Canvas<'_>, (left, top): (f64, f64), (width, height): (f64, f64)) -> Result<()> {
    let (right, bottom) = (left + width, top + height);
    canvas.curve(&[(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], GREY, 1.0)
}

fn draw_scale(canvas: &mut Canvas<'_>, (left, top): (f64, f64), height: f64, range: Range) -> Result<()> {
    const STRIP: f64 = 2.0;
    let right = left + SCALE.1;
    let mut low = 0.0;
    while low < height {
        let high = (low + STRIP).min(height);
        // From high to low values, as one reads from top to bottom; each down to the end, so that there is no seam.
        let colour = diverging(1.0 - (low + high) / height);
        let (from, to) = (top + low, top + height);
        canvas.polygon(&[(left, from), (right, from), (right, to), (left, to)], colour)?;
        low = high;
    }
    outline(canvas, (left, top), (SCALE.1, height))?;
    for (value, text) in ticks_beside(range) {
        let y = top + height * (1.0 - range.share(value));
        canvas.curve(&[(right, y), (right + TICK, y)], INK, 0.5)?;
        canvas.text(&text, (right + TICK + 4.0, y), LETTERS, Anchor::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heatmap(n: usize) -> Heatmap {
        let names: Vec<_> = (0..n).map(|j| format!("x{j}")).collect();
        Heatmap::new(&names, &names, &Matrix::from_fn(n, n, |i, j| if i == j { f64::NAN } else { i as f64 }))
    }

    #[test]
    fn names_have_room_at_every_size() {
        for n in (1..260).chain([400, 401, 999]) {
            let heatmap = heatmap(n);
            let distance = heatmap.side * heatmap.stride() as f64;
            assert!(distance >= 1.1 * heatmap.letters(), "{n}: {distance}");
            assert_eq!(heatmap.stride() == 1, n <= ALL_NAMED, "{n}");
            assert!(heatmap.rows.len() <= MOST && heatmap.side.fract() == 0.0);
            let (width, _) = heatmap.size();
            assert!((190.0..=520.0).contains(&width), "{n}: {width}");
        }
    }

    #[test]
    fn blocks_show_their_strongest_entry() {
        let mut values = Matrix::full(401, 401, 0.0);
        (values[(0, 2)], values[(1, 1)], values[(2, 1)], values[(400, 400)]) = (0.5, -3.0, 2.0, f64::NAN);
        let names: Vec<_> = (0..401).map(|j| j.to_string()).collect();
        let heatmap = Heatmap::new(&names, &names, &values);
        assert_eq!((heatmap.block, heatmap.values.rows(), heatmap.largest), (3, 134, 3.0));
        assert_eq!(heatmap.values[(0, 0)], -3.0);
        assert_eq!(heatmap.values[(133, 133)], 0.0);
        assert_eq!(heatmap.rows[133], "399");
        assert_eq!(heatmap.heading("t"), "t; each square the strongest of 3 × 3");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("äöü"), "äöü");
        assert_eq!(shortened(&"ä".repeat(21)), format!("{}…", "ä".repeat(19)));
    }
}
