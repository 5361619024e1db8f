//! From numbers to places: ranges, ticks and frames.

use super::canvas::{Anchor, Canvas, GREY, INK};
use crate::Result;

/// The size of letters in points.
pub(super) const LETTERS: f64 = 14.0;

/// About how wide a letter is, for leaving room: the viewer's font is not known.
pub(super) const LETTER_WIDTH: f64 = 0.56 * LETTERS;

/// An interval that is shown: finite, not empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    /// The smallest interval with all finite values; none if there are none or they span too much for a number.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low == high {
            // One value alone: any width will do, as long as it can be told from 0.
            let margin = if low == 0.0 { 1.0 } else { 0.5 * low.abs() };
            (low, high) = (low - margin, high + margin);
        }
        ((high - low).is_finite() && low < high).then_some(Range { low, high })
    }

    /// A little more at both ends, so that curves do not touch the frame.
    pub(super) fn padded(self) -> Range {
        let margin = 0.05 * (self.high - self.low);
        let wider = Range { low: self.low - margin, high: self.high + margin };
        if (wider.high - wider.low).is_finite() { wider } else { self }
    }

    /// About `count` round numbers within the interval, and the step between them.
    fn round_numbers(self, count: f64) -> (Vec<f64>, f64) {
        let width = self.high - self.low;
        let power = 10f64.powf((width / count).log10().floor());
        let excess = |step: f64| (width / step / count).ln().abs();
        let mut step = power;
        for candidate in [2.0, 5.0, 10.0].map(|m| m * power) {
            if excess(candidate) < excess(step) {
                step = candidate;
            }
        }
        let (first, last) = ((self.low / step - 1e-9).ceil(), (self.high / step + 1e-9).floor());
        // Where the interval is so narrow that its ends agree in nearly all digits, steps cannot be told apart.
        if !(last - first <= 20.0 && first.abs() < 1e12) {
            return (vec![self.low, self.high], width);
        }
        // The sum makes −0 a 0.
        ((0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step + 0.0).collect(), step)
    }

    pub(super) fn share(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// A number as a reader expects it: as few digits as tell `step` apart, and a true minus sign.
fn number(value: f64, step: f64) -> String {
    let order = |v: f64| v.abs().log10().floor() as i32;
    let text = if value == 0.0 && order(step) < -4 {
        "0".into()
    } else if order(step) < -4 || (value != 0.0 && order(value) > 5) {
        scientific(value, (order(value) - order(step)).clamp(0, 15) as usize)
    } else {
        format!("{value:.*}", (-order(step)).max(0) as usize)
    };
    text.replace('-', "−")
}

/// A number by itself, to three digits.
pub(super) fn lone_number(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let plain = format!("{rounded}");
    let text = if plain.len() <= 7 { plain } else { scientific(value, 2) };
    text.replace('-', "−")
}

/// Mantissa and exponent, without zeros that say nothing.
fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A coordinate system and the rectangle of the picture that shows it.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Range,
    pub(super) y: Range,
}

/// Ticks with what is written beside them.
fn ticks(range: Range, count: f64) -> Vec<(f64, String)> {
    let (values, step) = range.round_numbers(count);
    values.into_iter().map(|v| (v, number(v, step))).collect()
}

/// The width of the longest text.
fn widest(ticks: &[(f64, String)]) -> f64 {
    LETTER_WIDTH * ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0) as f64
}

/// Ticks below an axis of the given width: fewer where the numbers are long.
fn ticks_below(range: Range, width: f64) -> Vec<(f64, String)> {
    let fits = |found: &Vec<(f64, String)>| 1.3 * widest(found) * found.len() as f64 <= width;
    [4.5, 3.0].map(|count| ticks(range, count)).into_iter().find(fits).unwrap_or_else(|| ticks(range, 2.0))
}

pub(super) fn ticks_beside(range: Range) -> Vec<(f64, String)> {
    ticks(range, 4.5)
}

/// The room that the numbers beside the vertical axis need.
pub(super) fn numbers_width(range: Range) -> f64 {
    widest(&ticks_beside(range))
}

impl Frame {
    /// The place of a point.
    pub(super) fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + self.width * self.x.share(x), self.top + self.height * (1.0 - self.y.share(y)))
    }

    /// The frame with ticks, numbers and the names of the axes.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, (x_label, y_label): (&str, &str)) -> Result<()> {
        const TICK: f64 = 5.0;
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        let corners = [(self.left, self.top), (right, self.top), (right, bottom), (self.left, bottom)];
        canvas.curve(&[corners[0], corners[1], corners[2], corners[3], corners[0]], GREY, 1.0)?;
        for (value, text) in ticks_below(self.x, self.width) {
            let at = self.place((value, self.y.low)).0;
            canvas.curve(&[(at, bottom), (at, bottom + TICK)], GREY, 1.0)?;
            canvas.text(&text, (at, bottom + TICK + LETTERS * 0.8), LETTERS, Anchor::Middle)?;
        }
        for (value, text) in ticks_beside(self.y) {
            let at = self.place((self.x.low, value)).1;
            canvas.curve(&[(self.left - TICK, at), (self.left, at)], GREY, 1.0)?;
            canvas.text(&text, (self.left - TICK - 4.0, at), LETTERS, Anchor::Right)?;
        }
        let x_place = (self.left + 0.5 * self.width, bottom + TICK + LETTERS * 2.3);
        canvas.text(x_label, x_place, LETTERS, Anchor::Middle)?;
        let y_place = (self.left - numbers_width(self.y) - LETTERS * 1.5, self.top + 0.5 * self.height);
        canvas.text(y_label, y_place, LETTERS, Anchor::Upwards)
    }

    /// A dashed line across the frame at x.
    pub(super) fn vertical(&self, canvas: &mut Canvas<'_>, x: f64) -> Result<()> {
        canvas.dashes(self.place((x, self.y.low)), self.place((x, self.y.high)), INK)
    }

    /// A dashed line across the frame at y.
    pub(super) fn horizontal(&self, canvas: &mut Canvas<'_>, y: f64) -> Result<()> {
        canvas.dashes(self.place((self.x.low, y)), self.place((self.x.high, y)), INK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let below = |low, high| {
            let found = ticks_below(Range { low, high }, 228.0);
            found.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(below(0.0, 2.0), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(below(-1.3, 3.2), ["−1", "0", "1", "2", "3"]);
        assert_eq!(below(0.0, 20_000.0), ["0", "10000", "20000"]);
        assert_eq!(below(0.0, 4e-7), ["0", "1e−7", "2e−7", "3e−7", "4e−7"]);
        assert_eq!(below(0.0, 3e6), ["0", "1e6", "2e6", "3e6"]);
    }

    #[test]
    fn lone_numbers_are_short() {
        let texts = [0.1 + 0.2, 1.0, -1.5, 1234.6, 2.5e-9].map(lone_number);
        assert_eq!(texts, ["0.3", "1", "−1.5", "1230", "2.5e−9"]);
    }

    #[test]
    fn odd_ranges_stay_finite() {
        assert_eq!(Range::of([f64::NAN, f64::INFINITY].into_iter()), None);
        assert_eq!(Range::of([-f64::MAX, f64::MAX].into_iter()), None);
        for value in [0.0, 3.0, -1e300, 1e-300] {
            let range = Range::of([value].into_iter()).unwrap().padded();
            assert!(range.low < value && value < range.high, "{value}: {range:?}");
            assert!(ticks_beside(range).len() < 30);
        }
        for (low, high) in [(1.0, 1.0 + f64::EPSILON), (f64::MIN_POSITIVE, 1e-307), (0.0, 5e-324)] {
            assert!(ticks_beside(Range { low, high }).len() < 30);
        }
    }
}
