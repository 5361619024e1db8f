//! Box plots of several groups, one below the other.

use super::axes::{Frame, LETTERS, Range, Scale};
use super::canvas::{Anchor, Canvas, GREY, INK, WHITE};
use super::colour::Colour;
use super::draw::PanelLayout;
use super::heatmap::text_width;
use crate::Result;

/// The width of a frame.
const WIDTH: f64 = 270.0;
/// The height of a group's row, and of its box.
const ROW: f64 = 24.0;
const BOX: f64 = 13.0;
/// Letters of names and notes.
const SMALL: f64 = 0.86 * LETTERS;
/// Whiskers reach to the last value within this many interquartile ranges.
const REACH: f64 = 1.5;
/// The share of the group's colour inside a box.
const TINT: f64 = 0.35;

/// The values of a group in a box plot.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxGroup {
    /// The name, beside the box.
    pub name: String,
    /// The colour of the box.
    pub colour: Colour,
    /// The values. Infinite values count and lie beyond the frame; NaN is ignored.
    pub values: Vec<f64>,
    /// A number to compare the median with, marked by a diamond.
    pub mark: Option<f64>,
    /// A note at the other end of the row; empty for none.
    pub note: String,
}

/// The quartiles and whiskers of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BoxStatistics {
    /// First quartile, median, third quartile.
    pub(super) quartiles: [f64; 3],
    /// The least and the largest value within 1.5 times the distance of the quartiles.
    pub(super) whiskers: (f64, f64),
}

impl BoxStatistics {
    /// The statistics of a group; none if it has no value.
    pub(super) fn of(values: &[f64]) -> Option<BoxStatistics> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quartiles = [0.25, 0.5, 0.75].map(|share| {
            let at = share * last as f64;
            let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
            // Equal ends first: infinities have no difference.
            if low == high { low } else { low + (at - at.floor()) * (high - low) }
        });
        let reach = REACH * (quartiles[2] - quartiles[0]);
        let near = |v: &&f64| **v >= quartiles[0] - reach && **v <= quartiles[2] + reach;
        let whiskers = match reach.is_finite() {
            true => (
                sorted.iter().find(near).copied().unwrap_or(quartiles[0]),
                sorted.iter().rev().find(near).copied().unwrap_or(quartiles[2]),
            ),
            false => (sorted[0], quartiles[2]),
        };
        Some(BoxStatistics { quartiles, whiskers })
    }

    fn numbers(&self) -> [f64; 5] {
        let [low, middle, high] = self.quartiles;
        [self.whiskers.0, low, middle, high, self.whiskers.1]
    }
}

/// The interval that contains all boxes, whiskers and marks.
pub(super) fn range(groups: &[BoxGroup], scale: Scale) -> Option<Range> {
    let spreads = groups.iter().filter_map(|group| BoxStatistics::of(&group.values));
    let marks = groups.iter().filter_map(|group| group.mark);
    Range::on(scale, spreads.flat_map(|spread| spread.numbers()).chain(marks)).map(Range::padded)
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> f64 {
    texts.map(|text| text_width(text, SMALL)).fold(0.0, f64::max)
}

pub(super) fn room(groups: &[BoxGroup], title: &str) -> PanelLayout {
    let beyond = 0.5 * (text_width(title, 1.1 * LETTERS) - WIDTH);
    PanelLayout {
        frame: (WIDTH, ROW * groups.len() as f64 + 0.5 * (ROW - BOX)),
        left: (widest(groups.iter().map(|group| &group.name)) + 8.0).max(beyond),
        right: (widest(groups.iter().map(|group| &group.note)) + 6.0).max(beyond),
        below: 3.9 * LETTERS,
    }
}

/// Draws boxes, names and notes, but not the frame and its axis.
pub(super) fn draw(canvas: &mut Canvas<'_>, frame: &Frame, groups: &[BoxGroup], scale: Scale) -> Result<()> {
    let right = frame.left + frame.width;
    // Values beyond the frame, or without a position on its scale, are drawn at its edge.
    let x = |value: f64| match (scale.has(value), value > 0.0) {
        (true, _) => frame.place((value, 0.0)).0.clamp(frame.left, right),
        (false, true) => right,
        (false, false) => frame.left,
    };
    for (k, BoxGroup { name, colour, values, mark, note }) in groups.iter().enumerate() {
        let y = frame.top + ROW * (k as f64 + 0.5) + 0.25 * (ROW - BOX);
        let (top, bottom) = (y - 0.5 * BOX, y + 0.5 * BOX);
        canvas.text(name, (frame.left - 6.0, y), SMALL, Anchor::Right)?;
        canvas.text(note, (right + 5.0, y), SMALL, Anchor::Left)?;
        let rgb = colour.rgb();
        if let Some(spread) = BoxStatistics::of(values) {
            let [from, low, middle, high, to] = spread.numbers().map(x);
            let tint = rgb.map(|c| (TINT * f64::from(c) + (1.0 - TINT) * 255.0).round() as u8);
            canvas.curve(&[(from, y), (low, y)], rgb, 1.3)?;
            canvas.curve(&[(high, y), (to, y)], rgb, 1.3)?;
            for end in [from, to] {
                canvas.curve(&[(end, y - 0.25 * BOX), (end, y + 0.25 * BOX)], rgb, 1.3)?;
            }
            let corners = [(low, top), (high, top), (high, bottom), (low, bottom), (low, top)];
            canvas.polygon(&corners[..4], tint)?;
            canvas.curve(&corners, rgb, 1.3)?;
            canvas.curve(&[(middle, top), (middle, bottom)], INK, 2.4)?;
        }
        if let Some(mark) = mark {
            diamond(canvas, (x(*mark), y))?;
        }
    }
    Ok(())
}

/// The mark of a number to compare with.
pub(super) fn diamond(canvas: &mut Canvas<'_>, (x, y): (f64, f64)) -> Result<()> {
    const SIZE: f64 = 4.6;
    let corners = [(x, y - SIZE), (x + SIZE, y), (x, y + SIZE), (x - SIZE, y), (x, y - SIZE)];
    canvas.polygon(&corners[..4], WHITE)?;
    canvas.curve(&corners, INK, 1.2)
}

/// The axis below boxes, with light lines at its numbers so that far boxes can be compared.
pub(super) fn axis(canvas: &mut Canvas<'_>, frame: &Frame, label: &str) -> Result<()> {
    const GRID: [u8; 3] = [226, 226, 226];
    for at in frame.draw_below(canvas, label)? {
        canvas.curve(&[(at, frame.top), (at, frame.top + frame.height)], GRID, 0.8)?;
    }
    frame.outline(canvas, GREY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_those_of_the_usual_definition() {
        // 1 … 9 and one far away: quartiles by interpolation, whiskers at the last value within reach.
        let mut values: Vec<f64> = (1..=9).map(f64::from).collect();
        values.push(40.0);
        let spread = BoxStatistics::of(&values).unwrap();
        assert_eq!(spread.quartiles, [3.25, 5.5, 7.75]);
        assert_eq!(spread.whiskers, (1.0, 9.0));
        assert_eq!(BoxStatistics::of(&[2.0]).unwrap().numbers(), [2.0; 5]);
        assert_eq!(BoxStatistics::of(&[]), None);
        assert_eq!(BoxStatistics::of(&[f64::NAN]), None);
    }

    #[test]
    fn infinite_values_count_and_do_not_spoil_the_rest() {
        let inf = f64::INFINITY;
        let few = BoxStatistics::of(&[1.0, 2.0, 3.0, 4.0, inf]).unwrap();
        assert_eq!((few.quartiles, few.whiskers), ([2.0, 3.0, 4.0], (1.0, 4.0)));
        let many = BoxStatistics::of(&[1.0, 2.0, inf, inf]).unwrap();
        assert_eq!((many.whiskers, many.quartiles[2]), ((1.0, inf), inf));
        let group = |values: Vec<f64>| BoxGroup {
            name: "a".into(),
            colour: Colour::Blue,
            values,
            mark: None,
            note: String::new(),
        };
        let shown = range(&[group(vec![1.0, 2.0, inf, inf])], Scale::Log).unwrap();
        assert!(shown.low < 1.0 && shown.high >= 1.25 && shown.high < 3.0, "{shown:?}");
        assert_eq!(range(&[group(vec![inf, inf])], Scale::Log), None);
    }
}
