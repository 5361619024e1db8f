//! Colours that work in greyscale and for colour-blind readers.

/// A colour for lines and dots, from the palette of Okabe and Ito: readers with any common form of colour blindness can
/// distinguish any two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Black, for the reference that others are compared with.
    Black,
    /// Blue.
    Blue,
    /// A red towards orange.
    Red,
    /// A green towards blue.
    Green,
    /// A pink towards purple.
    Purple,
    /// Orange.
    Orange,
}

impl Colour {
    /// Every colour, in the order in which a series of curves should use them.
    pub const ALL: [Colour; 6] =
        [Colour::Black, Colour::Blue, Colour::Red, Colour::Green, Colour::Purple, Colour::Orange];

    pub(super) fn rgb(self) -> [u8; 3] {
        match self {
            Colour::Black => [26, 26, 26],
            Colour::Blue => [0, 114, 178],
            Colour::Red => [213, 94, 0],
            Colour::Green => [0, 158, 115],
            Colour::Purple => [204, 121, 167],
            Colour::Orange => [230, 159, 0],
        }
    }
}

/// The colour of `t` in [0, 1]: light yellow for 0, through green, to dark blue for 1.
///
/// A straight path in lightness, hue and chroma of the OKLab space, whose lightness is even to the eye: equal
/// steps of `t` look like equal steps, and the order survives a grey print.
pub(super) fn ramp(t: f64) -> [u8; 3] {
    let t = t.clamp(0.0, 1.0);
    let lightness = 0.97 - 0.62 * t;
    let hue = (105.0 + 165.0 * t).to_radians();
    // As much chroma as a screen can show all along the way.
    let chroma = 0.05 + 0.02 * (std::f64::consts::PI * t).sin() + 0.04 * t;
    from_oklab(lightness, chroma * hue.cos(), chroma * hue.sin())
}

/// The colour of `t` in [−1, 1]: white for 0, darker reds above, darker blues below.
///
/// Both arms darken evenly and alike, so a grey print shows the size; every common form of colour blindness still tells
/// blue from red, hence the sign.
pub(super) fn diverging(t: f64) -> [u8; 3] {
    let t = t.clamp(-1.0, 1.0);
    let size = t.abs();
    let hue = if t > 0.0 { 38f64 } else { 255f64 }.to_radians();
    // As much chroma as a screen can show on both arms.
    let chroma = (0.26 * size).min(0.14);
    from_oklab(1.0 - 0.55 * size, chroma * hue.cos(), chroma * hue.sin())
}

/// OKLab to sRGB (Ottosson 2020), cut to what a screen can show.
fn from_oklab(lightness: f64, a: f64, b: f64) -> [u8; 3] {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
    ];
    linear.map(|v| {
        let v = v.clamp(0.0, 1.0);
        let encoded = if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        (255.0 * encoded).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oklab_of_greys_is_grey() {
        assert_eq!(from_oklab(1.0, 0.0, 0.0), [255; 3]);
        assert_eq!(from_oklab(0.0, 0.0, 0.0), [0; 3]);
    }

    /// Luminance as a grey print shows it, by the weights of Rec. 709 on encoded values.
    fn grey(colour: [u8; 3]) -> f64 {
        let [r, g, b] = colour.map(f64::from);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    #[test]
    fn ramp_darkens_evenly() {
        let grey = |t| grey(ramp(t));
        let steps: Vec<f64> = (0..20).map(|i| grey(i as f64 / 20.0) - grey((i + 1) as f64 / 20.0)).collect();
        assert!(steps.iter().all(|s| (6.0..12.5).contains(s)), "{steps:?}");
    }

    #[test]
    fn diverging_is_white_at_0_and_both_arms_darken_alike() {
        assert_eq!(diverging(0.0), [255; 3]);
        assert_eq!(diverging(7.0), diverging(1.0));
        for i in 0..20 {
            let (near, far) = (f64::from(i) / 20.0, f64::from(i + 1) / 20.0);
            for sign in [1.0, -1.0] {
                let step = grey(diverging(sign * near)) - grey(diverging(sign * far));
                assert!((5.0..12.0).contains(&step), "{far} {sign}: {step}");
            }
            assert!((grey(diverging(far)) - grey(diverging(-far))).abs() < 16.0, "{far}");
        }
        let ([red, _, blue], [other_red, _, other_blue]) = (diverging(0.3), diverging(-0.3));
        assert!(red > blue && other_red < other_blue);
    }
}
