//! Axes: ranges, ticks and frames, which map numbers to positions.

use super::canvas::{Anchor, Canvas, GREY, INK};
use crate::Result;

/// The size of letters in points.
pub(super) const LETTERS: f64 = 14.0;

/// The approximate width of a letter, to reserve space: the viewer's font is not known.
pub(super) const LETTER_WIDTH: f64 = 0.56 * LETTERS;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal factors have equal lengths. Only positive numbers have a position.
    Log,
}

/// The interval that an axis shows: finite, not empty, and above 0 on a logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    scale: Scale,
}

impl Scale {
    /// Whether a number has a position on this scale.
    pub(super) fn has(self, value: f64) -> bool {
        value.is_finite() && (self == Scale::Linear || value > 0.0)
    }
}

impl Range {
    /// The smallest interval with all finite values; none if there are none or they span too much for a number.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        Range::on(Scale::Linear, values)
    }

    /// The same for the values that have a position on `scale`.
    pub(super) fn on(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| scale.has(*v)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low == high {
            // A single value: any width will do that is distinguishable from 0.
            let margin = if low == 0.0 { 1.0 } else { 0.5 * low.abs() };
            (low, high) = (low - margin, high + margin);
        }
        ((high - low).is_finite() && low < high).then_some(Range { low, high, scale })
    }

    /// A slightly larger interval, so that curves do not touch the frame.
    pub(super) fn padded(self) -> Range {
        const SHARE: f64 = 0.05;
        let Range { low, high, scale } = self;
        let (low, high) = match scale {
            Scale::Linear => (low - SHARE * (high - low), high + SHARE * (high - low)),
            Scale::Log => {
                let factor = (SHARE * (high.ln() - low.ln())).exp();
                (low / factor, high * factor)
            }
        };
        let wider = Range { low, high, scale };
        let shown = (high - low).is_finite() && (scale == Scale::Linear || low > 0.0);
        if shown { wider } else { self }
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

    /// Multiples of powers of ten by 1, 2 and 5, by 1 and 3 or by 1 alone, whichever are about `count`; none if the interval is too
    /// narrow for them.
    fn round_factors(self, count: f64) -> Option<Vec<f64>> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |multiples: &[f64], every: usize| -> Vec<f64> {
            (first..=last)
                .step_by(every)
                .flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power)))
                .filter(|v| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(v))
                .collect()
        };
        let finest = within(&[1.0, 2.0, 5.0], 1);
        if finest.len() < 3 {
            return None;
        }
        let coarser = (1..=usize::MAX).map(|every| within(&[1.0], every));
        [finest, within(&[1.0, 3.0], 1)]
            .into_iter()
            .chain(coarser)
            .find(|found| found.len() as f64 <= 1.6 * count)
    }

    pub(super) fn share(self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }
}

/// A number as text, with as few digits as distinguish multiples of `step`, and a true minus sign.
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

/// A single number as text, to three digits.
pub(super) fn lone_number(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let plain = format!("{rounded}");
    let text = if plain.len() <= 7 { plain } else { scientific(value, 2) };
    text.replace('-', "−")
}

/// Mantissa and exponent, without trailing zeros.
fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// The length of a tick.
const TICK: f64 = 5.0;

/// A coordinate system and its rectangle in the picture.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Range,
    pub(super) y: Range,
}

/// Ticks with their labels.
fn ticks(range: Range, count: f64) -> Vec<(f64, String)> {
    if range.scale == Scale::Log
        && let Some(values) = range.round_factors(count)
    {
        return values.into_iter().map(|v| (v, lone_number(v))).collect();
    }
    let (values, step) = range.round_numbers(count);
    values.into_iter().map(|v| (v, number(v, step))).collect()
}

/// The width of the longest text.
fn widest(ticks: &[(f64, String)]) -> f64 {
    LETTER_WIDTH * ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0) as f64
}

/// Ticks below an axis of the given width: fewer where the numbers are long.
pub(super) fn ticks_below(range: Range, width: f64) -> Vec<(f64, String)> {
    let fits = |found: &Vec<(f64, String)>| 1.3 * widest(found) * found.len() as f64 <= width;
    [4.5, 3.0].map(|count| ticks(range, count)).into_iter().find(fits).unwrap_or_else(|| ticks(range, 2.0))
}

pub(super) fn ticks_beside(range: Range) -> Vec<(f64, String)> {
    ticks(range, 4.5)
}

/// The width of the numbers beside the vertical axis.
pub(super) fn numbers_width(range: Range) -> f64 {
    widest(&ticks_beside(range))
}

impl Frame {
    /// The position of a point in the picture.
    pub(super) fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.left + self.width * self.x.share(x), self.top + self.height * (1.0 - self.y.share(y)))
    }

    /// The four sides.
    pub(super) fn outline(&self, canvas: &mut Canvas<'_>, colour: [u8; 3]) -> Result<()> {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        let corners = [(self.left, self.top), (right, self.top), (right, bottom), (self.left, bottom)];
        canvas.curve(&[corners[0], corners[1], corners[2], corners[3], corners[0]], colour, 1.0)
    }

    /// Draws ticks, numbers and the name of the horizontal axis. Returns the positions of the ticks.
    pub(super) fn draw_below(&self, canvas: &mut Canvas<'_>, label: &str) -> Result<Vec<f64>> {
        let bottom = self.top + self.height;
        let mut places = Vec::new();
        for (value, text) in ticks_below(self.x, self.width) {
            let at = self.left + self.width * self.x.share(value);
            canvas.curve(&[(at, bottom), (at, bottom + TICK)], GREY, 1.0)?;
            canvas.text(&text, (at, bottom + TICK + LETTERS * 0.8), LETTERS, Anchor::Middle)?;
            places.push(at);
        }
        let x_place = (self.left + 0.5 * self.width, bottom + TICK + LETTERS * 2.3);
        canvas.text(label, x_place, LETTERS, Anchor::Middle)?;
        Ok(places)
    }

    /// Draws the frame with ticks, numbers and the names of the axes.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, (x_label, y_label): (&str, &str)) -> Result<()> {
        self.outline(canvas, GREY)?;
        self.draw_below(canvas, x_label)?;
        for (value, text) in ticks_beside(self.y) {
            let at = self.place((self.x.low, value)).1;
            canvas.curve(&[(self.left - TICK, at), (self.left, at)], GREY, 1.0)?;
            canvas.text(&text, (self.left - TICK - 4.0, at), LETTERS, Anchor::Right)?;
        }
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
            let found = ticks_below(Range { low, high, scale: Scale::Linear }, 228.0);
            found.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(below(0.0, 2.0), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(below(-1.3, 3.2), ["−1", "0", "1", "2", "3"]);
        assert_eq!(below(0.0, 20_000.0), ["0", "10000", "20000"]);
        assert_eq!(below(0.0, 4e-7), ["0", "1e−7", "2e−7", "3e−7", "4e−7"]);
        assert_eq!(below(0.0, 3e6), ["0", "1e6", "2e6", "3e6"]);
    }

    #[test]
    fn logarithmic_axes_have_round_factors_at_equal_distances() {
        let range = |low: f64, high: f64| Range::on(Scale::Log, [low, high].into_iter()).unwrap();
        let texts = |low, high| {
            ticks_below(range(low, high), 228.0).into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(texts(0.9, 25.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(texts(0.011, 9.0), ["0.03", "0.1", "0.3", "1", "3"]);
        assert_eq!(
            texts(1e-3, 2e3),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1000"][..]
                .iter()
                .step_by(2)
                .copied()
                .collect::<Vec<_>>()
        );
        // Too narrow for factors.
        assert_eq!(texts(30.0, 45.0), ["30", "35", "40", "45"]);
        assert!((range(1.0, 100.0).share(10.0) - 0.5).abs() < 1e-12);
        let padded = range(1.0, 100.0).padded();
        assert!(padded.low > 0.7 && padded.low < 1.0 && padded.high > 100.0 && padded.high < 140.0);
        assert_eq!(Range::on(Scale::Log, [-1.0, 0.0, f64::NAN].into_iter()), None);
        for (low, high) in [(1e-300, 1e300), (1.0, 1.0), (5e-324, 1.0)] {
            assert!(ticks_beside(range(low, high).padded()).len() < 30);
        }
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
            assert!(ticks_beside(Range { low, high, scale: Scale::Linear }).len() < 30);
        }
    }
}
